// ReplyStreams: all answers on their way out, on the responses' strand, where their logs are
// written too: nothing here needs a lock, and publishing does not wait.
//
// A log that grows wakes the strand once, however many there are; then every stream has a turn of a
// bounded length. Bounded in all and for each claimant; of one response to one topic there is one
// stream, and a newer one takes its place.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>

#include "base/clock.h"
#include "base/status.h"
#include "doors/mqtt/profile/claimant.h"
#include "doors/mqtt/profile/delta_coalescer.h"
#include "doors/mqtt/profile/reply_form.h"
#include "doors/mqtt/profile/reply_order.h"
#include "doors/mqtt/profile/reply_stream.h"
#include "doors/mqtt/profile/strand_tasks.h"
#include "mqtt/message_port.h"
#include "services/responses/response.h"

namespace tutti::mqtt::profile {

class ReplyStreams {
 public:
  struct Limits {
    size_t all = 4000;          // more than messages that wait: others resume, or wait for an end
    size_t per_user = 400;      // likewise
    size_t per_project = 3000;  // likewise
  };
  ReplyStreams(const Limits& limits, const DeltaCoalescer::Options& coalescing, MessagePort& port,
               const Clock& clock, const StrandTasks& tasks);

  // What a stream is for; two of one purpose for one response to one topic are one.
  enum class Purpose { kAnswer, kWord };
  struct Setup {
    std::string topic, dialog;
    Claimant claimant;
    int64_t turn = 0;  // ends after those of the dialog's earlier turns there; 0: when it likes
    Purpose purpose = Purpose::kAnswer;
    std::shared_ptr<responses::Response> response;
    int64_t starting_after = -1;
    std::unique_ptr<ReplyForm> form;
    // Of an answer that an earlier process owed: whoever waits for it may not be back yet, so that
    // it is said again, for some minutes, until somebody listens.
    bool patient = false;
    // The last message has arrived, as far as anybody can know. A newer stream that takes the place
    // of this one takes this over. May be empty.
    std::function<void()> arrived;
    // At the end: whether the last message has arrived, as far as anybody can know; not so where a
    // newer stream takes its place. May be empty.
    std::function<void(bool delivered)> ended;
  };
  // Errors: overloaded, tenant_concurrency; then `ended` is not called.
  Status Open(Setup setup);

  // For an answer that is about to be opened: later ones wait for it.
  ReplyOrder::Place Reserve(const std::string& topic, const std::string& dialog, int64_t turn) {
    return order_of_turns_->Take({topic, dialog, turn});
  }
  // Whether the answer of that response is on its way to that topic.
  bool Holds(const std::string& topic, const std::string& response_id) const {
    return streams_.contains(Key(topic, response_id, Purpose::kAnswer));
  }
  // Those of topics that begin so: only their last messages are published from now on.
  void DetachBelow(std::string_view topics);
  // The response of a dialog that is being said, or else comes first; null: none.
  std::shared_ptr<responses::Response> RunningOf(const std::string& dialog) const;

  // `done` when no last message is on its way any more: now, or when the port has told.
  void OnceSettled(std::function<void()> done);

  void Clear();
  size_t size() const { return streams_.size(); }

 private:
  using Key = std::tuple<std::string, std::string, Purpose>;  // topic, response, purpose
  struct Entry {
    std::unique_ptr<ReplyStream> stream;
    Claimant claimant;
    std::string dialog;
    uint64_t serial = 0;
    int64_t turn = 0;
    ReplyOrder::Place place;
    std::function<void()> arrived;
    std::function<void(bool)> ended;
  };
  using Place = std::map<Key, Entry>::iterator;

  Status Publish(const Key& key, uint64_t serial, Message message, bool last);
  bool Settled() const;
  void PumpAll();
  void Close(Place place);
  void WakeAt(TimePoint due);

  const Limits limits_;
  const DeltaCoalescer::Options coalescing_;
  MessagePort& port_;
  const Clock& clock_;
  const StrandTasks& tasks_;
  const std::shared_ptr<api::StreamWaker> waker_;
  const std::shared_ptr<ReplyOrder> order_of_turns_;
  std::map<Key, Entry> streams_;
  std::map<uint64_t, Key> order_;  // by serial: each has its turn in the order of their opening
  ClaimantCounts claimants_;
  uint64_t serial_ = 0;
  std::function<void()> when_settled_;
  TimePoint armed_ = TimePoint::max();  // of the timer that comes first
};

}  // namespace tutti::mqtt::profile
