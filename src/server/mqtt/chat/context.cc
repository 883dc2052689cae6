#include "server/mqtt/chat/context.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <utility>
#include <vector>

#include "api/models.h"
#include "protocol/error.h"

namespace tutti::mqtt::chat {
namespace {

class OnceWaker final : public Waker, public std::enable_shared_from_this<OnceWaker> {
 public:
  OnceWaker(std::shared_ptr<Strand> strand, std::function<void()> task)
      : strand_(std::move(strand)), task_(std::move(task)) {}

  void Wake() noexcept override {
    if (posted_.exchange(true)) return;
    strand_->Post([self = shared_from_this()] {
      self->posted_.store(false);
      self->task_();
    });
  }

 private:
  const std::shared_ptr<Strand> strand_;
  const std::function<void()> task_;
  std::atomic<bool> posted_{false};
};

}  // namespace

std::shared_ptr<Waker> StrandTasks::MakeWaker(std::function<void()> task) const {
  return std::make_shared<OnceWaker>(strand_, WhileAlive(std::move(task)));
}

// A stopped strand drops the task without running it. Either way the wait ends with the task, whose
// promise is broken then.
void StrandTasks::Stop(std::function<void()> last) {
  auto promise = std::make_shared<std::promise<void>>();
  const std::future<void> passed = promise->get_future();
  strand_->Post([this, promise = std::move(promise), last = std::move(last)] {
    last();
    *alive_ = false;
  });
  passed.wait();
}

void Context::Publish(Message message) {
  const std::string topic = message.topic;
  const Status status = services.port.Publish(std::move(message));
  if (!status.ok())
    services.log.Warn("mqtt.publish_failed", {{"topic", topic}, {"code", status.reason()}});
}

void Context::LogRefusal(std::string_view topic, std::string_view user, const Status& why) {
  services.log.Warn("mqtt.refused", {{"topic", topic}, {"user", user}, {"code", why.reason()}});
}

Result<AdmissionQueue::Permit> Context::Enter(QuotaKey quota_key) {
  Result<AdmissionQueue::Permit> permit = room.Enter(std::move(quota_key), Now());
  NoteCrowding();
  return permit;
}

sessions::ChatOptions Context::ChatOf(const ProfileOptions& options, const Services& services) {
  sessions::ChatOptions chat{.default_project = options.default_project,
                             .projects = {},
                             .admit = services.admit,
                             .unix_ms = services.unix_ms};
  for (const ProjectSettings& project : options.projects)
    chat.projects.push_back({.name = project.name, .tenant = project.tenant});
  return chat;
}

void Context::Leave(AdmissionQueue::Permit* permit, AdmissionQueue::Outcome outcome) {
  if (!*permit) return room.Count(outcome);
  permit->Leave(outcome, Now());
  NoteCrowding();
}

void Context::NoteCrowding() {
  const int change = room.CrowdingChange();
  if (change == 0) return;
  const auto waiting = static_cast<int64_t>(room.statistics().waiting);
  const auto most = static_cast<int64_t>(options.waiting.all);
  if (change > 0) services.log.Warn("mqtt.backlog_high", {{"waiting", waiting}, {"most", most}});
  if (change < 0) services.log.Info("mqtt.backlog_normal", {{"waiting", waiting}, {"most", most}});
}

std::function<void()> Context::WhenArrived(const sessions::SessionKey& key, int64_t turn,
                                           const std::string& response_id) {
  return [this, key, turn, response_id] {
    delivered_ids.Add(response_id);
    services.sessions.Arrived(key, turn);
  };
}

const ProjectSettings* Context::FindProject(const std::string& tenant,
                                            const std::string& name) const {
  const auto found = std::find_if(options.projects.begin(), options.projects.end(),
                                  [&](const ProjectSettings& project) {
                                    return project.name == name && project.tenant == tenant;
                                  });
  return found == options.projects.end() ? nullptr : &*found;
}

std::string Context::ModelFor(const std::string& name) const {
  if (!name.empty()) return name;
  const api::ModelList models = services.inference.Models();
  const api::ModelInfo* model = api::DefaultGenerator(models);
  return model == nullptr ? name : model->id;
}

Message JsonMessage(std::string topic, std::string payload) {
  Message message;
  message.topic = std::move(topic);
  message.payload = std::move(payload);
  message.qos = 1;
  message.payload_is_text = true;
  message.content_type = "application/json";
  return message;
}

AdmissionQueue::Outcome OutcomeOf(const Status& refusal) {
  return protocol::FindError(refusal).retry == protocol::Retry::kYes
             ? AdmissionQueue::Outcome::kRejected
             : AdmissionQueue::Outcome::kError;
}

AdmissionQueue::Outcome OutcomeOf(const responses::Response& response) {
  return response.State().status == protocol::ResponseStatus::kFailed
             ? AdmissionQueue::Outcome::kError
             : AdmissionQueue::Outcome::kProcessed;
}

// Keys have no line breaks.
std::string DialogOf(const sessions::SessionKey& key) {
  return key.tenant + "\n" + key.project + "\n" + key.session;
}

}  // namespace tutti::mqtt::chat
