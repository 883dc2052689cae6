#include "services/cache/shared_answer.h"

#include <utility>

#include "base/check.h"

namespace tutti::cache {
namespace {

using Kind = api::StreamEvent::Kind;

constexpr int kEventsAtOnce = 16;  // events per chunk, which a reader buffers

}  // namespace

// Each reader's waker once, however many readers it has. Known to the log and to the answer, so
// that neither holds the other.
class SharedAnswer::Wakers final : public Waker {
 public:
  void Add(const std::shared_ptr<Waker>& waker) {
    if (waker == nullptr) return;
    const MutexLock lock(mutex_);
    ++counts_[waker];
  }
  void Remove(const std::shared_ptr<Waker>& waker) {
    const MutexLock lock(mutex_);
    const auto found = counts_.find(waker);
    if (found != counts_.end() && --found->second == 0) counts_.erase(found);
  }
  // Allocates nothing: it is the engine's thread that calls.
  void Wake() noexcept override {
    // Wakes without the lock: a waker has its own lock, under which its owner may call this object.
    std::shared_ptr<Waker> waker;
    while ((waker = Behind(waker)) != nullptr) waker->Wake();
  }

 private:
  // The next in the map's order, of those that are there now; null: none.
  std::shared_ptr<Waker> Behind(const std::shared_ptr<Waker>& waker) {
    const MutexLock lock(mutex_);
    const auto next = waker == nullptr ? counts_.begin() : counts_.upper_bound(waker);
    return next == counts_.end() ? nullptr : next->first;
  }

  Mutex mutex_;
  std::map<std::shared_ptr<Waker>, size_t> counts_ GUARDED_BY(mutex_);
};

SharedAnswer::SharedAnswer(AnswerKey key, std::string flight, std::string tenant, uint64_t era,
                           std::shared_ptr<api::Cancellable> control,
                           std::shared_ptr<api::RequestObserver> observer,
                           std::shared_ptr<const TierPlace> place)
    : key_(std::move(key)),
      flight_(std::move(flight)),
      tenant_(std::move(tenant)),
      era_(era),
      control_(std::move(control)),
      place_(std::move(place)),
      wakers_(std::make_shared<Wakers>()),
      log_(std::make_shared<api::TokenStream>(wakers_, std::move(observer))) {}

std::shared_ptr<SharedAnswer> SharedAnswer::Whole(AnswerKey key, std::string tenant, uint64_t era,
                                                  std::vector<api::StreamEvent> events) {
  auto answer =
      std::make_shared<SharedAnswer>(std::move(key), "", std::move(tenant), era, nullptr, nullptr);
  for (api::StreamEvent& event : events) {
    if (event.kind == api::StreamEvent::Kind::kEnd) {
      answer->log_->Finish(OkStatus(), event.usage, event.timings);
      break;
    }
    answer->log_->Append(std::move(event));
  }
  CHECK(answer->log_->ended());
  api::TokenStream::Cursor cursor(*answer->log_);
  while (const api::StreamEvent* event = cursor.Next()) answer->HaveRead(cursor.position(), *event);
  return answer;
}

bool SharedAnswer::TakeForKeeping() {
  const MutexLock lock(mutex_);
  return log_->ended() && log_->status().ok() && !std::exchange(taken_, true);
}

bool SharedAnswer::Join() {
  const MutexLock lock(mutex_);
  if (abandoned_ || failure_.has_value()) return false;
  ++readers_;
  return true;
}

bool SharedAnswer::Leave() {
  const MutexLock lock(mutex_);
  if (--readers_ > 0) return false;
  abandoned_ = true;
  return true;
}

void SharedAnswer::Watch(const std::shared_ptr<Waker>& waker) { wakers_->Add(waker); }
void SharedAnswer::Unwatch(const std::shared_ptr<Waker>& waker) { wakers_->Remove(waker); }

void SharedAnswer::HaveRead(size_t events, const api::StreamEvent& event) {
  const MutexLock lock(mutex_);
  if (events <= furthest_) return;
  furthest_ = events;
  const size_t bytes = api::TokenStream::EventBytes(event) + event.text.size();
  read_bytes_ += bytes;
  log_->Consumed(bytes);
}

size_t SharedAnswer::bytes() const {
  const MutexLock lock(mutex_);
  // The words are here and in the table; the last chunk of the log has room to spare.
  constexpr size_t kRecords = 1024 + 16 * sizeof(api::StreamEvent);
  return read_bytes_ + 2 * key_.words.size() + kRecords;
}

void SharedAnswer::Fail(const Status& status) {
  {
    const MutexLock lock(mutex_);
    failure_ = status;
  }
  wakers_->Wake();
}

std::optional<Status> SharedAnswer::failure() const {
  const MutexLock lock(mutex_);
  return failure_;
}

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
      End(Cancelled(), {}, {});
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
      if (!seat_.leads || alone == nullptr) End(Cancelled(), usage_, {});
    }
  }
  if (alone != nullptr) alone->Cancel();
}

}  // namespace tutti::cache
