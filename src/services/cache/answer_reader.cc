#include "services/cache/answer_reader.h"

#include <optional>
#include <utility>

namespace tutti::cache {
namespace {

using Kind = api::StreamEvent::Kind;

constexpr int kEventsAtOnce = 16;  // events per chunk, which a reader buffers

// The engine's status for a cancelled request.
Status CancelledByCaller() {
  return {StatusCode::kCancelled, "cancelled", "the request was cancelled"};
}

}  // namespace

AnswerReader::AnswerReader(std::shared_ptr<AnswerDesk> desk, std::shared_ptr<Waker> waker,
                           std::shared_ptr<api::Cancellable> control,
                           std::shared_ptr<api::RequestObserver> observer)
    : desk_(std::move(desk)),
      control_(std::move(control)),
      stream_(std::make_shared<api::TokenStream>(std::move(waker))),
      observer_(std::move(observer)) {}

std::shared_ptr<api::TokenStream> AnswerReader::Resolve(const api::RenderedRequest& rendered) {
  // Called without the lock, because it blocks and the request's reader takes the lock too.
  std::shared_ptr<const TierPlace> place = desk_->Fetch(rendered);
  {
    const MutexLock lock(mutex_);
    if (cancelled_) {  // during preparation
      End(CancelledByCaller(), {}, {});
    } else {
      seat_ = desk_->SeatFor(rendered, control_, &observer_, std::move(place));
      state_ = State::kReading;
      cursor_ = api::TokenStream::Cursor(*answer().log());
      if (seat_.shared != nullptr) seat_.shared->Watch(stream_->waker());
      if (seat_.leads) return seat_.shared->log();
    }
  }
  if (stream_->waker() != nullptr) stream_->waker()->Wake();  // there may be much to read
  return nullptr;
}

// Readers are woken without the lock: a waker has its own lock, and its owner may read under it.
void AnswerReader::Refuse(Status status, const api::Usage& usage) {
  std::shared_ptr<api::TokenStream> log;
  {
    const MutexLock lock(mutex_);
    if (state_ == State::kEnded) return;
    // A request that joined another's computation may fail for lack of memory: only this one ends.
    if (!seat_.leads) return End(std::move(status), usage, {});
    desk_->Forget(*seat_.shared);
    log = seat_.shared->log();
  }
  log->Finish(std::move(status), usage, {});
  log->waker()->Wake();
}

void AnswerReader::Withdraw(const Status& status) {
  std::shared_ptr<SharedAnswer> led;
  std::shared_ptr<api::Cancellable> alone;
  {
    const MutexLock lock(mutex_);
    observer_.reset();
    state_ = State::kEnded;
    if (seat_.shared == nullptr) return;
    seat_.shared->Unwatch(stream_->waker());
    if (seat_.leads) {
      led = seat_.shared;
      desk_->Forget(*led);
    } else {
      alone = Leave();
    }
  }
  if (led != nullptr) led->Fail(status);
  if (alone != nullptr) alone->Cancel();
}

bool AnswerReader::Fill(size_t read) {
  const MutexLock lock(mutex_);
  if (state_ != State::kReading || stream_->size() > read) return false;
  for (int i = 0; i < kEventsAtOnce && state_ == State::kReading; ++i) {
    api::TokenStream::Cursor next = cursor_;
    const api::StreamEvent* const event = next.Next();
    if (event == nullptr) break;
    if (seat_.shared != nullptr) seat_.shared->HaveRead(next.position(), *event);
    Copy(*event);  // may throw: then the event is the next one again
    cursor_ = next;
  }
  if (state_ == State::kReading && seat_.shared != nullptr && cursor_.position() == 0) {
    if (std::optional<Status> failure = seat_.shared->failure()) End(*std::move(failure), {}, {});
  }
  return stream_->size() > read;
}

void AnswerReader::Copy(const api::StreamEvent& event) {
  const bool free = !seat_.leads;
  if (event.kind == Kind::kEnd) {
    if (seat_.shared != nullptr) desk_->Complete(seat_.shared);
    api::Usage usage = event.usage;
    usage.cached_response = free;
    if (free) usage.accepted_prediction_tokens = usage.rejected_prediction_tokens = 0;
    return End(answer().log()->status(), usage, free ? api::Timings() : event.timings);
  }
  api::StreamEvent copy = event;
  copy.usage.cached_response = free && event.kind == Kind::kStarted;
  api::Usage usage = event.kind == Kind::kStarted ? copy.usage : usage_;
  if (event.kind == Kind::kToken) ++usage.completion_tokens;
  stream_->Append(std::move(copy));
  usage_ = usage;
  if (event.kind != Kind::kStarted && !std::exchange(has_token_, true) && observer_ != nullptr)
    observer_->FirstToken();
}

void AnswerReader::End(Status status, api::Usage usage, const api::Timings& timings) {
  if (seat_.shared != nullptr) {
    seat_.shared->Unwatch(stream_->waker());
    if (!cancelled_) seat_.shared->Leave();
  }
  state_ = State::kEnded;
  if (const auto observer = std::exchange(observer_, nullptr))
    status = observer->End(std::move(status), usage, timings);
  stream_->Finish(std::move(status), usage, timings);
}

std::shared_ptr<api::Cancellable> AnswerReader::Leave() {
  if (seat_.shared == nullptr || !seat_.shared->Leave()) return nullptr;
  desk_->Forget(*seat_.shared);
  return seat_.shared->log()->ended() ? nullptr : seat_.shared->control();
}

void AnswerReader::Cancel() noexcept {
  std::shared_ptr<api::Cancellable> alone;
  {
    const MutexLock lock(mutex_);
    if (cancelled_ || state_ == State::kEnded) return;
    if (state_ == State::kPreparing) {
      cancelled_ = true;
      alone = control_;
    } else {
      alone = Leave();
      cancelled_ = true;
      // If this reader leads and is the last, the engine's end, with its usage, is passed on.
      // Otherwise no further event comes, so the end is written here.
      if (!seat_.leads || alone == nullptr) End(CancelledByCaller(), usage_, {});
    }
  }
  if (alone != nullptr) alone->Cancel();
}

}  // namespace tutti::cache
