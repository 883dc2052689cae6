// ScriptedPort: a MessagePort in memory for tests: passes delivered messages to the sinks, and
// records publications with their times. The test decides the results of publications; by default
// every publication succeeds. Any thread.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "mqtt/message_port.h"
#include "mqtt/topics.h"

namespace tutti::mqtt::chat::testing {

struct Sent {
  Message message;
  TimePoint at;
};

class ScriptedPort final : public MessagePort {
 public:
  explicit ScriptedPort(const Clock& clock) : clock_(clock) {}

  // --- what happens to a publication ---
  std::function<Status(const Message&)> refuse;   // at once; empty: accept all
  std::function<Status(const Message&)> outcome;  // reported later; empty: OK
  std::function<bool(const Message&)> lose;       // at QoS 0, silently; empty: lose none
  bool holds = false;                             // the outcome is reported by ReportHeld()

  Status Publish(Message message, Published done) override {
    Status told;
    {
      const std::lock_guard lock(mutex_);
      if (refuse) RETURN_IF_ERROR(refuse(message));
      if (outcome) told = outcome(message);
      if (told.ok() && !(message.qos == 0 && lose && lose(message)))
        sent_.push_back({std::move(message), clock_.Now()});
    }
    if (done && holds) {
      const std::lock_guard lock(mutex_);
      held_.push_back([done = std::move(done), told] { done(told); });
    } else if (done) {
      done(told);
    }
    return OkStatus();
  }
  Status Subscribe(std::string filter, Sink sink) override {
    if (!IsTopicFilter(filter)) return InvalidArgument("invalid_value", "no filter");
    sinks_.emplace_back(std::move(filter), std::move(sink));
    return OkStatus();
  }

  // --- of the test ---

  // The result for the publisher: none before the message is taken care of. `sinks`: number of
  // matching sinks.
  struct Delivery {
    int sinks = 0;
    std::shared_ptr<std::optional<Status>> told = std::make_shared<std::optional<Status>>();
  };
  Delivery Deliver(const Message& message) {
    Delivery delivery;
    for (const auto& [filter, sink] : sinks_) {
      if (!TopicMatches(filter, message.topic)) continue;
      ++delivery.sinks;
      sink(message, Receipt([told = delivery.told](const Status& status) { *told = status; }));
    }
    return delivery;
  }
  void ReportHeld() {
    std::vector<std::function<void()>> held;
    {
      const std::lock_guard lock(mutex_);
      held.swap(held_);
    }
    for (const auto& tell : held) tell();
  }
  std::vector<std::string> filters() const {
    std::vector<std::string> filters;
    for (const auto& [filter, sink] : sinks_) filters.push_back(filter);
    return filters;
  }
  std::vector<Sent> sent() const {
    const std::lock_guard lock(mutex_);
    return sent_;
  }
  // To one topic.
  std::vector<Sent> sent(const std::string& topic) const {
    const std::lock_guard lock(mutex_);
    std::vector<Sent> some;
    for (const Sent& each : sent_) {
      if (each.message.topic == topic) some.push_back(each);
    }
    return some;
  }
  void Forget() {
    const std::lock_guard lock(mutex_);
    sent_.clear();
  }

 private:
  const Clock& clock_;
  std::vector<std::pair<std::string, Sink>> sinks_;  // constant once it is used
  mutable std::mutex mutex_;
  std::vector<Sent> sent_;
  std::vector<std::function<void()>> held_;
};

}  // namespace tutti::mqtt::chat::testing
