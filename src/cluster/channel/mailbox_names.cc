#include "cluster/channel/mailbox_names.h"

#include <algorithm>
#include <utility>

#include "base/random.h"

namespace tutti::cluster {
namespace {

constexpr size_t kLongestMailbox = 200;

std::string Prefix(const std::string& name, const char* kind) {
  return "tutti." + name + "." + kind + ".";
}

bool IsMailbox(const std::string& prefix, std::string_view mailbox) {
  return mailbox.size() > prefix.size() && mailbox.size() <= kLongestMailbox &&
         mailbox.starts_with(prefix);
}

}  // namespace

std::string SharedMailbox(const std::string& name) { return "tutti." + name + ".frontends"; }
std::string FrontendMailbox(const std::string& name, const std::string& id) {
  return Prefix(name, "front") + id;
}
std::string WorkerMailbox(const std::string& name, const std::string& id) {
  return Prefix(name, "worker") + id;
}
bool IsWorkerMailbox(const std::string& name, std::string_view mailbox) {
  return IsMailbox(Prefix(name, "worker"), mailbox);
}
bool IsFrontendMailbox(const std::string& name, std::string_view mailbox) {
  return IsMailbox(Prefix(name, "front"), mailbox);
}

Status CheckQueueName(const std::string& name) {
  const bool good =
      !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '-';
      });
  if (good) return OkStatus();
  return InvalidArgument("invalid_value", "a queue's name has 1 to 64 letters, digits, _ and -");
}

uint64_t RandomSession() {
  uint64_t number = 0;
  while (number == 0) number = RandomBits();
  return number;
}

void Post(broker::Broker& broker, const std::string& mailbox, const v1::Packet& packet) {
  broker.Send(mailbox, packet.SerializeAsString());
}

void BrokerPresence::Connected() {
  connected_ = true;
  if (log_ != nullptr) log_->Info("broker.connected", {{"broker", broker_}});
}

void BrokerPresence::Disconnected(const Status& why) {
  if (std::exchange(connected_, false)) since_ = clock_.Now();
  if (log_ != nullptr) log_->Warn("broker.lost", {{"broker", broker_}, {"why", why.message()}});
}

}  // namespace tutti::cluster
