// ReplyPublisher: publishes all answers that are being sent: reads the logs of responses and
// publishes their events in the form of a profile. Runs on the strand of the responses, where the
// logs are also written, so nothing here needs a lock, and publishing does not wait.
//
// The log is the buffer: while the port accepts no more, a stream stops reading and tries again
// later, so a subscriber that does not read costs no memory and blocks nothing. Deltas at QoS 0 are
// dropped instead. The last message is published until it is known to have arrived; if there is no
// subscriber twice in a row, only the last message is published.
//
// A growing log wakes the strand once, however many logs grow; then every stream gets a turn of
// bounded length. The number of streams is bounded in total and for each quota key. There is one
// stream for a response and a topic; a newer one replaces it.
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
#include "mqtt/message_port.h"
#include "server/mqtt/chat/delta_coalescer.h"
#include "server/mqtt/chat/quota_key.h"
#include "server/mqtt/chat/reply_formatter.h"
#include "server/mqtt/chat/reply_order.h"
#include "server/mqtt/chat/strand_tasks.h"
#include "services/responses/response.h"

namespace tutti::mqtt::chat {

class ReplyPublisher {
 public:
  struct Limits {
    size_t all = 4000;  // above the limit of waiting messages: also resumes and waits for an end
    size_t per_user = 400;      // of one user
    size_t per_project = 3000;  // of one project
  };
  ReplyPublisher(const Limits& limits, const DeltaCoalescer::Options& coalescing, MessagePort& port,
                 const Clock& clock, const StrandTasks& tasks);
  ~ReplyPublisher();

  // The purpose of a stream; two of the same purpose, response and topic are one.
  enum class Purpose { kAnswer, kEndNotice };
  struct Setup {
    std::string topic, dialog;
    QuotaKey quota_key;
    int64_t turn = 0;  // ends after earlier turns of the dialog on the topic; 0: at any time
    Purpose purpose = Purpose::kAnswer;
    std::shared_ptr<responses::Response> response;
    int64_t starting_after = -1;
    std::shared_ptr<ReplyFormatter> formatter;  // of this stream alone
    // An answer owed by an earlier process. It is unknown which events that process had sent: only
    // `accepted` and the last event are published, and a client that wants the others sends a
    // resume. Its subscriber may not be back yet, so the last event is repeated for some minutes
    // until there is a subscriber.
    bool owed = false;
    // Called when the last message has arrived, as far as is known. A newer stream that replaces
    // this one takes the callback over. May be empty.
    std::function<void()> arrived;
    // Called at the end with whether the last message has arrived, as far as is known; false if a
    // newer stream replaces this one. May be empty.
    std::function<void(bool delivered)> ended;
  };
  // Errors: overloaded, tenant_concurrency; then `ended` is not called.
  Status Open(Setup setup);

  // Reserves the place of an answer that will be opened soon: later ones wait for it.
  ReplyOrder::Place Reserve(const std::string& topic, const std::string& dialog, int64_t turn) {
    return order_of_turns_->Take({topic, dialog, turn});
  }
  // Whether the answer of that response is being sent to that topic.
  bool Holds(const std::string& topic, const std::string& response_id) const {
    return streams_.contains(Key(topic, response_id, Purpose::kAnswer));
  }
  // For streams on topics with this prefix: only their last messages are published from now on.
  void DetachBelow(std::string_view topics);
  // The response of a dialog that is being sent, or else the next one; null: none.
  std::shared_ptr<responses::Response> RunningOf(const std::string& dialog) const;

  // Calls `done` when no last message is on its way: now, or when the port has reported.
  void OnceSettled(std::function<void()> done);

  void Clear();
  size_t size() const { return streams_.size(); }

 private:
  class Stream;
  using Key = std::tuple<std::string, std::string, Purpose>;  // topic, response, purpose
  struct Entry {
    std::unique_ptr<Stream> stream;
    QuotaKey quota_key;
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
  const std::shared_ptr<Waker> waker_;
  const std::shared_ptr<ReplyOrder> order_of_turns_;
  std::map<Key, Entry> streams_;
  std::map<uint64_t, Key> order_;  // by serial: streams take turns in the order of their opening
  QuotaKeyCounts quota_counts_;
  uint64_t serial_ = 0;
  std::function<void()> when_settled_;
  TimePoint armed_ = TimePoint::max();  // of the earliest timer
};

}  // namespace tutti::mqtt::chat
