// SlidingWindow: exact rate limiter that stores the time of each event, so that no period contains
// more than `limit` events. Gcra would permit nearly twice as many in one period (a full bucket
// plus its refill). For small limits, because each event is stored. Pure; one thread at a time.
#pragma once

#include <cstdint>
#include <deque>

#include "base/clock.h"

namespace tutti::limits {

inline constexpr int kMaxInWindow = 1000;

struct Window {
  int limit = 0;                              // 1..kMaxInWindow; 0: no such rule
  Duration period = std::chrono::minutes(1);  // older requests do not count
  friend bool operator==(const Window&, const Window&) = default;
};

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
