#include "redis/pool.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"

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

Pool::Pool(Options options, const Clock* clock)
    : options_(std::move(options)), breaker_(options_.breaker, clock) {}

Pool::~Pool() {
  const MutexLock lock(mutex_);
  CHECK_EQ(lent_, 0u);
}

Pool::Loan::~Loan() {
  if (connection_ != nullptr) pool_->GiveBack(std::move(connection_));
}

Result<Pool::Loan> Pool::Take(TimePoint until) {
  while (true) {
    if (!breaker_.closed())
      return Unavailable("redis_unreachable", "Redis has failed, and is left alone for a while");
    std::unique_ptr<Connection> taken;
    {
      const MutexLock lock(mutex_);
      while (idle_.empty()) {
        const Duration left = until - std::chrono::steady_clock::now();
        if (left <= Duration::zero() || !returned_.WaitFor(mutex_, left)) {
          if (!idle_.empty()) break;
          return Unavailable("redis_timeout", "no connection to Redis is free");
        }
      }
      taken = std::move(idle_.back());
      idle_.pop_back();
      ++lent_;
    }
    Loan loan(this, std::move(taken));
    // Skips connections that Redis has closed meanwhile, and those with unexpected bytes.
    if (loan->Clean()) return loan;
  }
}

void Pool::GiveBack(std::unique_ptr<Connection> connection) {
  if (connection->broken()) {
    breaker_.Failed();
  } else if (connection->outstanding() == 0) {
    breaker_.Succeeded();
  }
  const bool clean = connection->Clean();
  {
    const MutexLock lock(mutex_);
    --lent_;
    if (clean) {
      idle_.push_back(std::move(connection));
    } else {
      ++thrown_away_;
    }
  }
  if (clean) return returned_.NotifyOne();
  if (options_.wanted) options_.wanted();
}

void Pool::Tend() {
  while (true) {
    if (!breaker_.closed() && !breaker_.MayTry()) return;
    {
      const MutexLock lock(mutex_);
      if (breaker_.closed() && idle_.size() + lent_ >= options_.connections) return;
    }
    Result<std::unique_ptr<Connection>> made = Connection::Open(options_.connection);
    if (!made.ok()) return breaker_.Failed();
    {
      const MutexLock lock(mutex_);
      // Connections from before the failure may hang: lent ones will be detected, idle ones are
      // replaced.
      if (!breaker_.closed()) idle_.clear();
      if (idle_.size() + lent_ < options_.connections) idle_.push_back(*std::move(made));
    }
    breaker_.Succeeded();
    returned_.NotifyOne();
  }
}

Pool::Stats Pool::stats() const {
  const MutexLock lock(mutex_);
  return {.idle = idle_.size(),
          .lent = lent_,
          .thrown_away = thrown_away_,
          .opened = breaker_.opened(),
          .up = breaker_.closed() && idle_.size() + lent_ > 0};
}

}  // namespace tutti::redis
