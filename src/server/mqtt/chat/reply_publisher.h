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

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "base/waker.h"
#include "mqtt/message_port.h"
#include "protocol/responses/events.h"
#include "server/mqtt/chat/admission_queue.h"
#include "services/responses/response.h"
#include "services/sessions/message.h"

namespace tutti::mqtt::chat {

class StrandTasks;

// Deltas of one item with successive numbers, as one event with their texts one after the other.
struct Deltas {
  int64_t first = 0, last = 0;
  protocol::TextDeltaEvent event;
};

// ReplyFormatter: encodes the answer to one message in the form of a profile. Runs on the strand.
// It publishes nothing itself; a message that cannot be published now is requested again later.
class ReplyFormatter {
 public:
  virtual ~ReplyFormatter() = default;

  // The number of the turn in the session, once the message is accepted; 0 before.
  void set_turn(int64_t turn) { turn_ = turn; }
  // The answer; before OfDeltas() and OfEvent().
  void set_response(std::shared_ptr<responses::Response> response) {
    response_ = std::move(response);
  }

  // Each returns nothing if this form does not show the event.
  //
  // The acceptance of a message whose answer is no longer kept, published before the error.
  virtual std::optional<Message> OfAcceptance(const sessions::Acceptance&) const {
    return std::nullopt;
  }
  // Deltas that are sent together, after `index` earlier messages of deltas. At QoS 0 they may be
  // lost.
  virtual std::optional<Message> OfDeltas(const Deltas& deltas, int64_t index) const = 0;
  // Any other event; the message of the terminal event holds the answer, and is never lost.
  virtual std::optional<Message> OfEvent(const responses::LogEntry& entry, int64_t index) const = 0;
  // Why the message was refused. Also replaces an event that could not be sent, or events that are
  // no longer stored.
  virtual std::optional<Message> OfError(const Status& error) const = 0;

 protected:
  int64_t turn() const { return turn_; }
  const responses::Response& response() const { return *response_; }

 private:
  int64_t turn_ = 0;
  std::shared_ptr<responses::Response> response_;
};

// DeltaCoalescer: decides which deltas of a text are sent together, so that a stream of tokens does
// not need a message for each. Pure; one owner at a time.
//
// The first delta is sent at once, as is any delta after a pause. Later ones are held until `hold`
// has passed since the first held one, or until they have `bytes` bytes: 100 streams of 50 tokens a
// second are 2,500 messages.
class DeltaCoalescer {
 public:
  struct Options {
    Duration hold = std::chrono::milliseconds(30);
    size_t bytes = 256;
  };
  explicit DeltaCoalescer(const Options& options) : options_(options) {}

  // `sequence` follows that of the delta before, and the item is the same.
  void Add(int64_t sequence, const protocol::TextDeltaEvent& delta, TimePoint now);
  const Deltas* held() const { return held_.has_value() ? &*held_ : nullptr; }
  // Time at which the held text must be sent; max(): no text is held.
  TimePoint due() const { return due_; }
  // The held text has been sent or dropped.
  void Sent(TimePoint now);

 private:
  const Options options_;
  std::optional<Deltas> held_;
  TimePoint due_ = TimePoint::max();
  std::optional<TimePoint> sent_;  // when the last was
};

// ReplyOrder: the order of the answers of a dialog on a topic: answers to earlier turns that are on
// their way, or will be soon, go first. So an answer owed by an earlier process precedes the ends
// of later turns, however much must be read from the store for it.
class ReplyOrder : public std::enable_shared_from_this<ReplyOrder> {
 public:
  // `changed` is called when the first answer of an order has gone.
  explicit ReplyOrder(std::function<void()> changed) : changed_(std::move(changed)) {}

  struct Rank {
    std::string topic, dialog;
    int64_t turn = 0;  // 0: outside the order
  };
  using Place = std::shared_ptr<const void>;  // later turns wait while it exists
  Place Take(const Rank& rank) {
    if (rank.turn == 0) return nullptr;
    const Line line(rank.topic, rank.dialog);
    turns_[line].insert(rank.turn);
    return {nullptr, [order = weak_from_this(), line, turn = rank.turn](const void*) {
              if (const auto held = order.lock()) held->Leave(line, turn);
            }};
  }
  bool IsFirst(const Rank& rank) const {
    const auto line = turns_.find({rank.topic, rank.dialog});
    return rank.turn == 0 || line == turns_.end() || *line->second.begin() >= rank.turn;
  }

 private:
  using Line = std::pair<std::string, std::string>;
  void Leave(const Line& line, int64_t turn) {
    const auto turns = turns_.find(line);
    turns->second.erase(turns->second.find(turn));
    if (turns->second.empty()) turns_.erase(turns);
    changed_();
  }

  const std::function<void()> changed_;
  std::map<Line, std::multiset<int64_t>> turns_;
};

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
    Setup setup;
    uint64_t serial = 0;
    ReplyOrder::Place place;
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
