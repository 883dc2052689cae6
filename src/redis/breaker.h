// Breaker: whether something that has failed is to be tried again. Closed it lets all through;
// after `failures` in a row it is open and lets nobody; after a while one is to try (half open),
// whose success closes it and whose failure keeps it open, twice as long each time. Any thread.
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
  // `clock` outlives it.
  Breaker(const Options& options, const Clock* clock) : options_(options), clock_(*clock) {}

  bool closed() const { return closed_.load(std::memory_order_acquire); }
  // Open, and the time has come: true for one caller, who tells the outcome.
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
