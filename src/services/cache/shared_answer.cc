#include "services/cache/shared_answer.h"

#include <utility>

#include "base/check.h"

namespace tutti::cache {

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

}  // namespace tutti::cache
