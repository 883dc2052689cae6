#include "server/mqtt/profile/reply_stream.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "server/mqtt/profile/native_events.h"

namespace tutti::mqtt::profile {
namespace {

constexpr size_t kAtOnce = 64;  // entries of one log, before others have their turn
constexpr Duration kPortWait = std::chrono::milliseconds(50);
// The last message again: after 1, 2, 4, ... 30 s, for about four minutes.
constexpr Duration kFirstRetry = std::chrono::seconds(1), kMaxRetry = std::chrono::seconds(30);
constexpr int kMaxTries = 12;
constexpr int kAbsent = 2;  // one alone may be wrong: mosquitto before 2.0.20 said so of everybody

// The port may take it later; else it never will.
bool MayPass(const Status& status) { return status.code() != StatusCode::kInvalidArgument; }

Duration RetryWait(int tries) {
  return std::min<Duration>(kMaxRetry, kFirstRetry * (int64_t{1} << std::min(tries, 5)));
}

}  // namespace

Result<std::unique_ptr<ReplyStream>> ReplyStream::Open(
    std::shared_ptr<responses::Response> response, int64_t starting_after,
    std::shared_ptr<Waker> waker, std::unique_ptr<ReplyForm> form,
    const DeltaCoalescer::Options& coalescing, Publish publish, bool patient) {
  ASSIGN_OR_RETURN(responses::ResponseReader reader,
                   responses::ResponseReader::Attach(std::move(response), starting_after, waker));
  return std::unique_ptr<ReplyStream>(new ReplyStream(std::move(reader), std::move(waker),
                                                      std::move(form), coalescing,
                                                      std::move(publish), patient));
}

ReplyStream::ReplyStream(responses::ResponseReader reader, std::shared_ptr<Waker> waker,
                         std::unique_ptr<ReplyForm> form, const DeltaCoalescer::Options& coalescing,
                         Publish publish, bool patient)
    : response_(reader.response()),
      reader_(std::move(reader)),
      waker_(std::move(waker)),
      form_(std::move(form)),
      publish_(std::move(publish)),
      patient_(patient),
      coalescer_(coalescing) {}

TimePoint ReplyStream::due() const {
  if (blocked_ || last_waits_) return blocked_until_;
  return coalescer_.due();
}

ReplyStream::Progress ReplyStream::Pump(TimePoint now, bool may_end) {
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

bool ReplyStream::Refill(TimePoint now) {
  Result<std::vector<responses::ResponseLog::Entry>> read = reader_->Next(kAtOnce);
  if (!read.ok()) {
    // The oldest events are no longer stored. Sends an error and then the remaining events: the
    // last one has the whole text. Held deltas are sent before, because their numbers do not
    // continue.
    if (coalescer_.held() != nullptr && !SendHeld(now)) return false;
    if (std::optional<Message> message = form_->OfError(read.status()); message.has_value())
      (void)publish_(*std::move(message), /*last=*/false);
    Result<responses::ResponseReader> rest =
        responses::ResponseReader::Attach(response_, response_->log().first() - 1, waker_);
    if (!rest.ok()) {
      Finish();
      return false;
    }
    reader_.emplace(*std::move(rest));
    read = reader_->Next(kAtOnce);
    if (!read.ok()) return false;  // the log ran away meanwhile: at the next turn
  }
  entries_.assign(read->begin(), read->end());
  return !entries_.empty();
}

// The next entry; false when nothing more can be done now.
bool ReplyStream::Take(TimePoint now, bool may_end) {
  const responses::ResponseLog::Entry entry = entries_.front();
  if (const auto* const delta = std::get_if<wire::TextDeltaEvent>(&entry->event)) {
    entries_.pop_front();
    if (detached_) return true;
    coalescer_.Add(entry->sequence, *delta, now);
    return coalescer_.due() > now || SendHeld(now);
  }
  if (coalescer_.held() != nullptr && !SendHeld(now)) return false;
  if (entry->terminal() && !may_end) return false;
  if (!SendEvent(*entry, now)) return false;
  entries_.pop_front();
  return !ended_;
}

bool ReplyStream::SendHeld(TimePoint now) {
  std::optional<Message> message;
  if (!detached_) message = form_->OfDeltas(*coalescer_.held(), index_);
  if (message.has_value()) {
    const bool may_be_lost = message->qos == 0;
    if (!Send(*std::move(message), now) && !may_be_lost) return false;
    blocked_ = false;
    ++index_;
  }
  coalescer_.Sent(now);
  return true;
}

bool ReplyStream::SendEvent(const responses::LogEntry& entry, TimePoint now) {
  if (detached_ && !entry.terminal()) return true;
  std::optional<Message> message = form_->OfEvent(entry, index_);
  if (!entry.terminal()) return !message.has_value() || Send(*std::move(message), now);
  if (!message.has_value()) {
    delivered_ = true;
    Finish();
    return true;
  }
  last_ = std::move(message);
  SendLast(now);
  return true;
}

// False: not now. What can never be sent is left out.
bool ReplyStream::Send(Message message, TimePoint now) {
  const Status status = publish_(std::move(message), /*last=*/false);
  if (status.ok() || !MayPass(status)) return true;
  blocked_ = true;
  blocked_until_ = now + kPortWait;
  return false;
}

// It stays here until it has arrived.
void ReplyStream::SendLast(TimePoint now) {
  const Status status = publish_(*last_, /*last=*/true);
  last_waits_ = !status.ok();
  if (status.ok()) return;
  blocked_until_ = now + kPortWait;
  if (MayPass(status)) return;
  if (std::optional<Message> message = form_->OfError(status); message.has_value())
    (void)publish_(*std::move(message), /*last=*/false);
  Finish();
}

void ReplyStream::OnPublished(bool last, const Status& status, TimePoint now) {
  const bool absent = status.code() == StatusCode::kNotFound && !patient_;
  if (absent && ++absences_ >= kAbsent) Detach();
  if (status.ok()) absences_ = 0;
  if (!last || !last_.has_value() || ended_) return;
  if (status.ok() || absent || !MayPass(status) || ++tries_ >= kMaxTries) {
    delivered_ = status.ok() || absent;
    Finish();
    return;
  }
  last_waits_ = true;
  blocked_until_ = now + RetryWait(tries_ - 1);
}

}  // namespace tutti::mqtt::profile
