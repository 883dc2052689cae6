#include "server/mqtt/chat/reply_publisher.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <variant>
#include <vector>

#include "server/mqtt/chat/context.h"

namespace tutti::mqtt::chat {
namespace {

constexpr size_t kAtOnce = 64;  // entries of one log per turn
constexpr Duration kPortWait = std::chrono::milliseconds(50);
// Retries of the last message: after 1, 2, 4, ... 30 s, for about four minutes.
constexpr Duration kFirstRetry = std::chrono::seconds(1), kMaxRetry = std::chrono::seconds(30);
constexpr int kMaxTries = 12;
constexpr int kAbsent = 2;  // one may be false: mosquitto before 2.0.20 reports it for all

// Whether a retry may succeed.
bool MayPass(const Status& status) { return status.code() != StatusCode::kInvalidArgument; }

Duration RetryWait(int tries) {
  return std::min<Duration>(kMaxRetry, kFirstRetry * (int64_t{1} << std::min(tries, 5)));
}

}  // namespace

void DeltaCoalescer::Add(int64_t sequence, const protocol::TextDeltaEvent& delta, TimePoint now) {
  if (held_.has_value()) {
    held_->last = sequence;
    held_->event.text += delta.text;
  } else {
    held_ = Deltas{.first = sequence, .last = sequence, .event = delta};
    const bool paused = !sent_.has_value() || now - *sent_ >= options_.hold;
    due_ = paused ? now : now + options_.hold;
  }
  if (held_->event.text.size() >= options_.bytes) due_ = now;
}

void DeltaCoalescer::Sent(TimePoint now) {
  held_.reset();
  due_ = TimePoint::max();
  sent_ = now;
}

// One answer that is being sent.
class ReplyPublisher::Stream {
 public:
  // Like MessagePort::Publish; the result comes through OnPublished(), except for QoS 0.
  using Publish = std::function<Status(Message message, bool last)>;

  // Uses the formatter and owed of `setup`. `waker` is woken when the log grows.
  Stream(responses::ResponseReader reader, std::shared_ptr<Waker> waker, const Setup& setup,
         const DeltaCoalescer::Options& coalescing, Publish publish);

  enum class Progress {
    kIdle,   // nothing to do until the log grows, due() comes or OnPublished is called
    kMore,   // there is more to read, but other streams have their turn first
    kEnded,  // everything is sent
  };
  // `may_end`: whether the last message may go out now.
  Progress Pump(TimePoint now, bool may_end);
  TimePoint due() const;

  void OnPublished(bool last, const Status& status, TimePoint now);
  // The subscriber has gone: only the last message is published from now on.
  void Detach() { detached_ = true; }

  const std::shared_ptr<responses::Response>& response() const { return response_; }
  // Whether the last message has arrived, as far as is known.
  bool delivered() const { return delivered_; }
  // Whether the last message was given to the port, and its result is still unknown.
  bool last_is_out() const { return last_.has_value() && !last_waits_ && !ended_; }

 private:
  bool Refill(TimePoint now);  // false: nothing to read yet
  bool Take(TimePoint now, bool may_end);
  bool SendHeld(TimePoint now);
  bool IsShown(const responses::LogEntry& entry) const;
  bool SendEvent(const responses::LogEntry& entry, TimePoint now);
  bool Send(Message message, TimePoint now);
  void SendLast(TimePoint now);

  const std::shared_ptr<responses::Response> response_;
  std::optional<responses::ResponseReader> reader_;
  const std::shared_ptr<Waker> waker_;
  const std::shared_ptr<ReplyFormatter> formatter_;
  const Publish publish_;
  const bool owed_;
  DeltaCoalescer coalescer_;
  std::deque<responses::ResponseLog::Entry> entries_;  // read and not yet sent
  int64_t index_ = 0;                                  // messages of deltas sent
  int absences_ = 0;  // QoS 1 messages in a row without a subscriber
  bool detached_ = false;
  TimePoint blocked_until_{};  // the port accepts nothing before
  bool blocked_ = false;
  std::optional<Message> last_;  // sent, not known to have arrived
  bool last_waits_ = false;      // to be published again at blocked_until_
  int tries_ = 0;
  bool ended_ = false, delivered_ = false;
};

ReplyPublisher::Stream::Stream(responses::ResponseReader reader, std::shared_ptr<Waker> waker,
                               const Setup& setup, const DeltaCoalescer::Options& coalescing,
                               Publish publish)
    : response_(reader.response()),
      reader_(std::move(reader)),
      waker_(std::move(waker)),
      formatter_(setup.formatter),
      publish_(std::move(publish)),
      owed_(setup.owed),
      coalescer_(coalescing) {
  formatter_->set_response(response_);
}

TimePoint ReplyPublisher::Stream::due() const {
  if (blocked_ || last_waits_) return blocked_until_;
  return coalescer_.due();
}

ReplyPublisher::Stream::Progress ReplyPublisher::Stream::Pump(TimePoint now, bool may_end) {
  if (blocked_ && now < blocked_until_) return Progress::kIdle;
  blocked_ = false;
  for (size_t taken = 0; taken < kAtOnce && !ended_; ++taken) {
    if (last_.has_value()) {
      if (last_waits_ && now >= blocked_until_) SendLast(now);
      return ended_ ? Progress::kEnded : Progress::kIdle;
    }
    if (coalescer_.due() <= now && !SendHeld(now)) return Progress::kIdle;
    if ((entries_.empty() && !Refill(now)) || !Take(now, may_end))
      return ended_ ? Progress::kEnded : Progress::kIdle;
  }
  return ended_ ? Progress::kEnded : Progress::kMore;
}

bool ReplyPublisher::Stream::Refill(TimePoint now) {
  Result<std::vector<responses::ResponseLog::Entry>> read = reader_->Next(kAtOnce);
  if (!read.ok()) {
    // The oldest events are no longer stored. Sends an error and then the remaining events: the
    // last one has the whole text. Held deltas are sent before, because their numbers do not
    // continue.
    if (coalescer_.held() != nullptr && !SendHeld(now)) return false;
    std::optional<Message> message = owed_ ? std::nullopt : formatter_->OfError(read.status());
    if (message.has_value()) (void)publish_(*std::move(message), /*last=*/false);
    Result<responses::ResponseReader> rest =
        responses::ResponseReader::Attach(response_, response_->log().first() - 1, waker_);
    if (!rest.ok()) {
      ended_ = true;
      return false;
    }
    reader_.emplace(*std::move(rest));
    read = reader_->Next(kAtOnce);
    if (!read.ok()) return false;  // entries were dropped meanwhile: handled next turn
  }
  entries_.assign(read->begin(), read->end());
  return !entries_.empty();
}

// The next entry; false when nothing more can be done now.
bool ReplyPublisher::Stream::Take(TimePoint now, bool may_end) {
  const responses::ResponseLog::Entry entry = entries_.front();
  if (const auto* const delta = std::get_if<protocol::TextDeltaEvent>(&entry->event)) {
    entries_.pop_front();
    if (detached_ || owed_) return true;
    coalescer_.Add(entry->sequence, *delta, now);
    return coalescer_.due() > now || SendHeld(now);
  }
  if (coalescer_.held() != nullptr && !SendHeld(now)) return false;
  if (entry->terminal() && !may_end) return false;
  if (!SendEvent(*entry, now)) return false;
  entries_.pop_front();
  return !ended_;
}

bool ReplyPublisher::Stream::SendHeld(TimePoint now) {
  std::optional<Message> message;
  if (!detached_) message = formatter_->OfDeltas(*coalescer_.held(), index_);
  if (message.has_value()) {
    const bool may_be_lost = message->qos == 0;
    if (!Send(*std::move(message), now) && !may_be_lost) return false;
    blocked_ = false;
    ++index_;
  }
  coalescer_.Sent(now);
  return true;
}

bool ReplyPublisher::Stream::IsShown(const responses::LogEntry& entry) const {
  if (entry.terminal()) return true;
  return !detached_ && (!owed_ || std::holds_alternative<protocol::AcceptedEvent>(entry.event));
}

bool ReplyPublisher::Stream::SendEvent(const responses::LogEntry& entry, TimePoint now) {
  if (!IsShown(entry)) return true;
  std::optional<Message> message = formatter_->OfEvent(entry, index_);
  if (!entry.terminal()) return !message.has_value() || Send(*std::move(message), now);
  if (!message.has_value()) {
    delivered_ = true;
    ended_ = true;
    return true;
  }
  last_ = std::move(message);
  SendLast(now);
  return true;
}

// Returns false if the port accepts nothing now. A message that can never be sent is skipped.
bool ReplyPublisher::Stream::Send(Message message, TimePoint now) {
  const Status status = publish_(std::move(message), /*last=*/false);
  if (status.ok() || !MayPass(status)) return true;
  blocked_ = true;
  blocked_until_ = now + kPortWait;
  return false;
}

// Keeps the last message until its delivery is confirmed.
void ReplyPublisher::Stream::SendLast(TimePoint now) {
  const Status status = publish_(*last_, /*last=*/true);
  last_waits_ = !status.ok();
  if (status.ok()) return;
  blocked_until_ = now + kPortWait;
  if (MayPass(status)) return;
  if (std::optional<Message> message = formatter_->OfError(status); message.has_value())
    (void)publish_(*std::move(message), /*last=*/false);
  ended_ = true;
}

void ReplyPublisher::Stream::OnPublished(bool last, const Status& status, TimePoint now) {
  const bool absent = status.code() == StatusCode::kNotFound && !owed_;
  if (absent && ++absences_ >= kAbsent) Detach();
  if (status.ok()) absences_ = 0;
  if (!last || !last_.has_value() || ended_) return;
  if (status.ok() || absent || !MayPass(status) || ++tries_ >= kMaxTries) {
    delivered_ = status.ok() || absent;
    ended_ = true;
    return;
  }
  last_waits_ = true;
  blocked_until_ = now + RetryWait(tries_ - 1);
}

ReplyPublisher::ReplyPublisher(const Limits& limits, const DeltaCoalescer::Options& coalescing,
                               MessagePort& port, const Clock& clock, const StrandTasks& tasks)
    : limits_(limits),
      coalescing_(coalescing),
      port_(port),
      clock_(clock),
      tasks_(tasks),
      waker_(tasks.MakeWaker([this] { PumpAll(); })),
      order_of_turns_(std::make_shared<ReplyOrder>([waker = waker_] { waker->Wake(); })),
      quota_counts_({limits.per_user, limits.per_project}) {}

ReplyPublisher::~ReplyPublisher() = default;

Status ReplyPublisher::Open(Setup setup) {
  if (streams_.size() >= limits_.all)
    return Unavailable("overloaded", "too many answers are on their way");
  RETURN_IF_ERROR(quota_counts_.RoomFor(setup.quota_key, "answers"));
  const Key key(setup.topic, setup.response->id(), setup.purpose);
  const uint64_t serial = ++serial_;
  ASSIGN_OR_RETURN(responses::ResponseReader reader,
                   responses::ResponseReader::Attach(setup.response, setup.starting_after, waker_));
  auto stream = std::make_unique<Stream>(std::move(reader), waker_, setup, coalescing_,
                                         [this, key, serial](Message message, bool last) {
                                           return Publish(key, serial, std::move(message), last);
                                         });
  if (const auto older = streams_.find(key); older != streams_.end()) {
    if (!setup.arrived) setup.arrived = std::move(older->second.setup.arrived);
    if (setup.turn == 0) setup.turn = older->second.setup.turn;
    Close(older);
  }
  quota_counts_.Add(setup.quota_key);
  ReplyOrder::Place place = Reserve(setup.topic, setup.dialog, setup.turn);
  streams_[key] = {.stream = std::move(stream),
                   .setup = std::move(setup),
                   .serial = serial,
                   .place = std::move(place)};
  order_[serial] = key;
  waker_->Wake();  // what was in the log before
  return OkStatus();
}

Status ReplyPublisher::Publish(const Key& key, uint64_t serial, Message message, bool last) {
  if (message.qos == 0) return port_.Publish(std::move(message));
  auto published = tasks_.WhileAlive([this, key, serial, last](const Status& status) {
    const auto place = streams_.find(key);
    if (place == streams_.end() || place->second.serial != serial) return;
    place->second.stream->OnPublished(last, status, clock_.Now());
    if (last || !status.ok()) waker_->Wake();
  });
  return port_.Publish(std::move(message),
                       [strand = tasks_.strand(), published](const Status& status) {
                         strand->Post([published, status]() mutable { published(status); });
                       });
}

void ReplyPublisher::PumpAll() {
  const TimePoint now = clock_.Now();
  bool more = false;
  TimePoint due = TimePoint::max();
  for (auto next = order_.begin(); next != order_.end();) {
    const Place here = streams_.find((next++)->second);
    const Entry& entry = here->second;
    const bool may_end =
        order_of_turns_->IsFirst({entry.setup.topic, entry.setup.dialog, entry.setup.turn});
    switch (entry.stream->Pump(now, may_end)) {
      case Stream::Progress::kIdle:
        due = std::min(due, entry.stream->due());
        break;
      case Stream::Progress::kMore:
        more = true;
        break;
      case Stream::Progress::kEnded:
        Close(here);
        break;
    }
  }
  if (more) waker_->Wake();
  WakeAt(due);
}

void ReplyPublisher::WakeAt(TimePoint due) {
  if (due >= armed_) return;
  armed_ = due;
  tasks_.PostAt(due, [this] {
    armed_ = TimePoint::max();
    PumpAll();
  });
}

void ReplyPublisher::Close(Place place) {
  const Entry entry = std::move(place->second);
  streams_.erase(place);
  order_.erase(entry.serial);
  quota_counts_.Remove(entry.setup.quota_key);
  if (entry.setup.arrived && entry.stream->delivered()) entry.setup.arrived();
  if (entry.setup.ended) entry.setup.ended(entry.stream->delivered());
  if (when_settled_ && Settled()) std::exchange(when_settled_, nullptr)();
}

bool ReplyPublisher::Settled() const {
  return std::none_of(streams_.begin(), streams_.end(),
                      [](const auto& entry) { return entry.second.stream->last_is_out(); });
}

void ReplyPublisher::OnceSettled(std::function<void()> done) {
  if (Settled()) return done();
  when_settled_ = std::move(done);
}

void ReplyPublisher::DetachBelow(std::string_view topics) {
  for (auto& [key, entry] : streams_) {
    if (std::get<0>(key).starts_with(topics)) entry.stream->Detach();
  }
}

std::shared_ptr<responses::Response> ReplyPublisher::RunningOf(const std::string& dialog) const {
  const Stream* first = nullptr;
  uint64_t serial = 0;
  for (const auto& [key, entry] : streams_) {
    if (entry.setup.dialog != dialog || entry.stream->response()->ended()) continue;
    const auto& response = entry.stream->response();
    if (response->State().status == protocol::ResponseStatus::kInProgress) return response;
    if (first == nullptr || entry.serial < serial) {
      first = entry.stream.get();
      serial = entry.serial;
    }
  }
  return first == nullptr ? nullptr : first->response();
}

void ReplyPublisher::Clear() {
  streams_.clear();
  order_.clear();
  when_settled_ = nullptr;
}

}  // namespace tutti::mqtt::chat
