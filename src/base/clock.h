// Monotonic time behind an interface, so that every deadline, budget and wait can run under test
// time; and wall-clock time, for stored and displayed times only.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace tutti {

using Duration = std::chrono::nanoseconds;
// Monotonic, no relation to wall time. time_point::max() means "never".
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

inline double ToSeconds(Duration d) { return std::chrono::duration<double>(d).count(); }
// `seconds` must be below 292 years, or the result overflows.
inline Duration FromSeconds(double seconds) {
  return Duration(static_cast<int64_t>(seconds * 1e9));
}
inline double ToMillis(Duration d) { return std::chrono::duration<double, std::milli>(d).count(); }
inline int64_t WholeMillis(Duration d) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
}

// `now` + `wait` for a `wait` from outside, without overflow: negative counts as zero, and more
// than a century as never.
inline TimePoint After(TimePoint now, std::chrono::milliseconds wait) {
  if (wait > std::chrono::hours(24 * 36500)) return TimePoint::max();
  return now + std::max(wait, std::chrono::milliseconds::zero());
}

// Any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
};

// The one that lives as long as the program. Any thread.
inline const SteadyClock& ProgramClock() {
  static const SteadyClock clock;
  return clock;
}

// A clock for tests, which advances only when the test moves it. Any thread.
class ManualClock final : public Clock {
 public:
  TimePoint Now() const override {
    return TimePoint(Duration(ns_.load(std::memory_order_acquire)));
  }
  void Advance(Duration by) { ns_.fetch_add(by.count(), std::memory_order_acq_rel); }

 private:
  std::atomic<int64_t> ns_{1'000'000'000};
};

// Wall-clock time since 1970.
inline int64_t UnixNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}
inline int64_t UnixMillis() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}
inline int64_t UnixSeconds() { return UnixMillis() / 1000; }

}  // namespace tutti
