// Breaker: a circuit breaker. While closed, it allows all calls; after `failures` failures in a row
// it opens and allows none; after a delay it allows one trial call (half open), whose success
// closes the breaker and whose failure keeps it open for twice as long. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/mutex.h"

namespace tutti::redis {

class Breaker {
 public:
  struct Options {
    int failures = 3;
    Duration first_wait = std::chrono::milliseconds(250);
    Duration longest_wait = std::chrono::seconds(8);
  };
  // `clock` outlives the breaker.
  Breaker(const Options& options, const Clock* clock) : options_(options), clock_(*clock) {}

  bool closed() const { return closed_.load(std::memory_order_acquire); }
  // True for one caller when the breaker is open and the delay is over; that caller makes the trial
  // call and reports its outcome.
  bool MayTry();
  void Succeeded();
  void Failed();
  uint64_t opened() const { return opened_.load(std::memory_order_relaxed); }  // times

 private:
  const Options options_;
  const Clock& clock_;
  std::atomic<bool> closed_{true};
  std::atomic<uint64_t> opened_{0};
  Mutex mutex_;
  int in_a_row_ GUARDED_BY(mutex_) = 0;
  Duration wait_ GUARDED_BY(mutex_){0};
  TimePoint next_ GUARDED_BY(mutex_){};  // try
  bool trying_ GUARDED_BY(mutex_) = false;
};

}  // namespace tutti::redis
