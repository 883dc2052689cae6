// Rate limiters of one subject: Gcra, whose state is one number, and the exact SlidingWindow. Pure;
// one thread at a time.
#pragma once

#include <cstdint>
#include <deque>

#include "base/clock.h"

namespace tutti::limits {

// Maximum of units of any kind, such as requests or tokens, and of debts; larger values are capped.
inline constexpr int64_t kMaxUnits = int64_t{1} << 40;

struct Rate {
  int64_t limit = 0;                          // units in a period, 1..kMaxUnits
  Duration period = std::chrono::minutes(1);  // at most a day
  int64_t burst = 0;                          // at once, of a full bucket; 1..kMaxUnits
  friend bool operator==(const Rate&, const Rate&) = default;
};
inline Rate PerMinute(int64_t limit) { return {limit, std::chrono::minutes(1), limit}; }

// Gcra: rate limiter with the generic cell rate algorithm: a token bucket whose only state is the
// time at which it will be full again (the "theoretical arrival time").
//
// Invariant: from any moment at which the bucket is full, the units taken and not given back stay
// within burst + limit * time / period, except for usage beyond its reservation (Settle). There is
// no rounding: time is counted in units of 1 / limit nanosecond, so that one unit of the limit
// takes exactly `period` of them. Source: ITU-T I.371, annex A (virtual scheduling).
//
// All calls of one bucket with the same rate, and `now` never going back.
class Gcra {
 public:
  // Takes `units` if they are there.
  bool Take(const Rate& rate, int64_t units, TimePoint now);
  // Wait until Take would give `units`: 0 for at once, max() for never.
  Duration RetryAfter(const Rate& rate, int64_t units, TimePoint now) const;
  // Takes `units` whether they are there or not; what is missing is a debt.
  void Charge(const Rate& rate, int64_t units, TimePoint now);
  // Corrects `reserved` units, taken at `taken_at`, to `used`. Returned units never overfill the
  // bucket, and are dropped if it has been full since: they were refilled by time.
  void Settle(const Rate& rate, int64_t reserved, int64_t used, TimePoint taken_at, TimePoint now);
  // Changes the rate, with the same period: missing units stay missing.
  void Change(const Rate& from, const Rate& to, TimePoint now);

  int64_t Remaining(const Rate& rate, TimePoint now) const;  // whole units; 0 in debt
  Duration UntilFull(const Rate& rate, TimePoint now) const;
  // A full bucket is as good as a new one.
  bool AtRest(const Rate& rate, TimePoint now) const { return Missing(rate, now) == 0; }

 private:
  using Parts = __int128;  // below 2^104 each way
  Parts Missing(const Rate& rate, TimePoint now) const;

  Parts full_at_ = -(Parts{1} << 120);  // always was
  TimePoint busy_since_{};              // when it was last full and something was taken
};

inline constexpr int kMaxInWindow = 1000;

struct Window {
  int limit = 0;                              // 1..kMaxInWindow; 0: no such rule
  Duration period = std::chrono::minutes(1);  // older requests do not count
  friend bool operator==(const Window&, const Window&) = default;
};

// SlidingWindow: exact rate limiter that stores the time of each event, so that no period contains
// more than `limit` events. Gcra would permit nearly twice as many in one period (a full bucket
// plus its refill). For small limits, because each event is stored.
class SlidingWindow {
 public:
  bool Take(const Window& window, TimePoint now);
  // Wait until Take would succeed; 0 for at once.
  Duration RetryAfter(const Window& window, TimePoint now) const;
  void Charge(const Window& window, TimePoint now);  // whether there is room or not
  void Undo(TimePoint taken_at);                     // one that was taken then never was

  int Remaining(const Window& window, TimePoint now) const;
  Duration UntilFull(const Window& window, TimePoint now) const;  // until none counts any more
  bool AtRest(const Window& window, TimePoint now) const {
    return UntilFull(window, now) == Duration(0);
  }

 private:
  std::deque<TimePoint> times_;  // oldest first
};

}  // namespace tutti::limits
