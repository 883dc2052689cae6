// Context: shared by all parts of the profiles. Used on the strand, except the admission queue.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/strand.h"
#include "base/trace_context.h"
#include "protocol/schema/checked_object.h"
#include "server/mqtt/chat/admission_queue.h"
#include "server/mqtt/chat/profile.h"
#include "server/mqtt/chat/reply_publisher.h"
#include "server/mqtt/chat/topics.h"
#include "services/sessions/chat.h"

namespace tutti::mqtt::chat {

// The trace context in the user properties of a message (W3C Trace Context for MQTT).
inline TraceContext SentContext(const Message& message) {
  std::string_view parent, state;
  for (const auto& [name, value] : message.user_properties) {
    if (name == "traceparent") parent = value;
    if (name == "tracestate") state = value;
  }
  return ReadTraceContext(parent, state);
}

// StrandTasks: runs the tasks of a profile on the strand of the responses, until Stop(). Callbacks
// that were given to others (the port, the services, the clock) may be called at any time; once
// Stop() has returned they do nothing.
class StrandTasks {
 public:
  explicit StrandTasks(std::shared_ptr<Strand> strand) : strand_(std::move(strand)) {}
  StrandTasks(const StrandTasks&) = delete;
  StrandTasks& operator=(const StrandTasks&) = delete;

  // Wraps `task`, to be called on the strand: it does nothing after Stop().
  template <typename Task>
  auto WhileAlive(Task task) const {
    return [alive = std::weak_ptr<bool>(alive_), task = std::move(task)](auto&&... args) mutable {
      const std::shared_ptr<bool> held = alive.lock();
      if (held != nullptr && *held) task(std::forward<decltype(args)>(args)...);
    };
  }
  // Any thread.
  template <typename Task>
  void Post(Task task) const {
    strand_->Post(WhileAlive(std::move(task)));
  }
  template <typename Task>
  void PostAt(TimePoint when, Task task) const {
    strand_->PostAt(when, WhileAlive(std::move(task)));
  }
  // Returns a waker that runs `task` on the strand; several wake-ups before the run cause one run.
  std::shared_ptr<Waker> MakeWaker(std::function<void()> task) const;

  const std::shared_ptr<Strand>& strand() const { return strand_; }

  // Runs `last` on the strand, unless the strand has stopped; afterwards no task runs. Blocks; must
  // not be called on the strand. Called once.
  void Stop(std::function<void()> last);

 private:
  const std::shared_ptr<Strand> strand_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // value: strand only
};

// DeliveredIds: ids of the responses whose answers are known to have arrived, the latest few
// thousand. Used on the strand.
class DeliveredIds {
 public:
  void Add(const std::string& response_id) {
    if (!known_.insert(response_id).second) return;
    order_.push_back(response_id);
    if (order_.size() <= kMost) return;
    known_.erase(order_.front());
    order_.pop_front();
  }
  bool Has(const std::string& response_id) const { return known_.contains(response_id); }

 private:
  static constexpr size_t kMost = 4096;  // ids of 37 bytes
  std::deque<std::string> order_;
  std::unordered_set<std::string> known_;  // the same ids
};

struct Context {
  Context(ProfileOptions profile_options, Services given, NativeTopics native_topics)
      : options(std::move(profile_options)),
        services(std::move(given)),
        topics(std::move(native_topics)),
        tasks(services.responses.strand()),
        chat(ChatOf(options, services), services.sessions),
        room(options.waiting),
        publisher(options.streams, options.coalescing, services.port, services.clock, tasks) {}

  TimePoint Now() const { return services.clock.Now(); }
  protocol::ParseOptions Parsing() const { return {.strict = options.strict, .now = Now()}; }
  // Publishes an answer. If the port refuses it, nothing else can be done; the log counts refusals.
  void Publish(Message message);
  // Logs a refused message: the sender and the reason, nothing of its content.
  void LogRefusal(std::string_view topic, std::string_view user, const Status& why);
  // Takes a place in the admission queue for one message.
  Result<AdmissionQueue::Permit> Enter(QuotaKey quota_key);
  // Records the outcome of a message, with or without a place.
  void Leave(AdmissionQueue::Permit* permit, AdmissionQueue::Outcome outcome);
  // The callback for when the answer to a turn has arrived.
  std::function<void()> WhenArrived(const sessions::SessionKey& key, int64_t turn,
                                    const std::string& response_id);
  // The project with that name and tenant in the settings; null if there is none.
  const ProjectSettings* FindProject(const std::string& tenant, const std::string& name) const;
  // The model for `name`; the default model if `name` is empty.
  std::string ModelFor(const std::string& name) const;

  const ProfileOptions options;
  const Services services;
  const NativeTopics topics;
  StrandTasks tasks;
  DeliveredIds delivered_ids;
  const sessions::Chat chat;
  AdmissionQueue room;  // outlives the streams, which hold permits
  ReplyPublisher publisher;

 private:
  static sessions::ChatOptions ChatOf(const ProfileOptions& options, const Services& services);
  void NoteCrowding();
};

// A message of JSON, at QoS 1.
Message JsonMessage(std::string topic, std::string payload);

// Outcome of a refusal: rejected if the same message may be accepted later.
AdmissionQueue::Outcome OutcomeOf(const Status& refusal);
// Outcome of an answered message.
AdmissionQueue::Outcome OutcomeOf(const responses::Response& response);

// Name of a session in ReplyPublisher.
std::string DialogOf(const sessions::SessionKey& key);

}  // namespace tutti::mqtt::chat
