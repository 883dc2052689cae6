// Shared by both ends of a connection through a message broker: names of mailboxes, limits, and the
// state of the broker.
#pragma once

#include <tutti/v1/packet.pb.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "broker/broker.h"

namespace tutti::cluster {

// How long both ends wait for a broker that is away: requests stall for at most this time.
inline constexpr Duration kMaxAway = std::chrono::seconds(60);
// Interval at which a worker without a frontend looks for one.
inline constexpr Duration kAskEvery = std::chrono::milliseconds(500);

// Mailboxes of the frontends and workers of the deployment `name`; deployments of other names may
// use the same broker.
std::string SharedMailbox(const std::string& name);
std::string FrontendMailbox(const std::string& name, const std::string& id);
std::string WorkerMailbox(const std::string& name, const std::string& id);
// Whether `mailbox` may be that of a worker, or frontend, of `name`. A packet can therefore not
// make this process write to another mailbox.
bool IsWorkerMailbox(const std::string& name, std::string_view mailbox);
bool IsFrontendMailbox(const std::string& name, std::string_view mailbox);
// Checks for 1 to 64 of a-z, A-Z, 0-9, '_' and '-'. Error: invalid_value.
Status CheckQueueName(const std::string& name);

// The number of a new session, which cannot be guessed; never 0.
uint64_t RandomSession();

void Post(broker::Broker& broker, const std::string& mailbox, const v1::Packet& packet);

// Whether the broker is connected, and since when it is not. Used by the broker's thread only.
class BrokerPresence {
 public:
  // `log` may be null; `broker`: its address, for the log.
  BrokerPresence(const Clock& clock, Logger* log, std::string broker)
      : clock_(clock), log_(log), broker_(std::move(broker)), since_(clock.Now()) {}
  void Connected();
  void Disconnected(const Status& why);
  bool connected() const { return connected_; }
  // Whether the broker has been away for longer than kMaxAway.
  bool away_too_long(TimePoint now) const { return !connected_ && now - since_ > kMaxAway; }

 private:
  const Clock& clock_;
  Logger* const log_;
  const std::string broker_;
  bool connected_ = false;
  TimePoint since_;
};

}  // namespace tutti::cluster
