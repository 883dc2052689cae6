#include "redis/breaker.h"

#include <algorithm>
#include <utility>

namespace tutti::redis {

bool Breaker::MayTry() {
  if (closed()) return false;
  const MutexLock lock(mutex_);
  if (trying_ || clock_.Now() < next_) return false;
  return trying_ = true;
}

void Breaker::Succeeded() {
  const MutexLock lock(mutex_);
  in_a_row_ = 0;
  // A call that began before the breaker opened may succeed late; only the trial call closes the
  // breaker.
  if (!closed() && !trying_) return;
  trying_ = false;
  closed_.store(true, std::memory_order_release);
}

void Breaker::Failed() {
  const MutexLock lock(mutex_);
  if (closed()) {
    if (++in_a_row_ < options_.failures) return;
    opened_.fetch_add(1, std::memory_order_relaxed);
    wait_ = options_.first_wait;
    closed_.store(false, std::memory_order_release);
  } else {
    if (!std::exchange(trying_, false)) return;
    wait_ = std::min(wait_ * 2, options_.longest_wait);
  }
  next_ = clock_.Now() + wait_;
}

}  // namespace tutti::redis
