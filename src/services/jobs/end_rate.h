// EndRate: how far apart jobs end while others wait, from which the wait of the next is estimated.
//
// Jobs that run side by side end together, and long after that nothing ends: what lies between two
// ends tells nothing. So it is the time since the end before the last `window`, over `window`;
// while there were not so many yet, the time since something began. Not synchronised.
#pragma once

#include <cstddef>
#include <deque>

#include "base/clock.h"

namespace tutti::jobs {

class EndRate {
 public:
  // Several times as many as run at once.
  explicit EndRate(size_t window) : window_(window) {}

  // Something runs now; the first word after Idle() counts.
  void Begin(TimePoint now) {
    if (since_ == TimePoint::min()) since_ = now;
  }
  void End(TimePoint now) {
    if (since_ == TimePoint::min()) return;  // nobody said that it began
    ends_.push_back(now);
    if (ends_.size() > window_) {
      since_ = ends_.front();
      ends_.pop_front();
    }
    ms_per_end_ = ToMillis(now - since_) / static_cast<double>(ends_.size());
  }
  // Nothing runs and nothing waits. What was known stays known until there is more.
  void Idle() {
    since_ = TimePoint::min();
    ends_.clear();
  }

  double ms_per_end() const { return ms_per_end_; }  // 0: not known

 private:
  const size_t window_;
  TimePoint since_ = TimePoint::min();
  std::deque<TimePoint> ends_;
  double ms_per_end_ = 0;
};

}  // namespace tutti::jobs
