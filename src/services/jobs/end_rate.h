// EndRate: average time between the ends of jobs while others wait; for estimates of waiting times.
//
// Concurrent jobs end in bursts, so the time between two single ends means nothing. The rate is
// therefore averaged over the last `window` ends, or, before there are that many, since the first
// job began. Not synchronised.
#pragma once

#include <cstddef>
#include <deque>

#include "base/clock.h"

namespace tutti::jobs {

class EndRate {
 public:
  // Should be several times the number of concurrent jobs.
  explicit EndRate(size_t window) : window_(window) {}

  // Called when a job begins; only the first call after Idle() counts.
  void Begin(TimePoint now) {
    if (since_ == TimePoint::min()) since_ = now;
  }
  void End(TimePoint now) {
    if (since_ == TimePoint::min()) return;  // no Begin() came before
    ends_.push_back(now);
    if (ends_.size() > window_) {
      since_ = ends_.front();
      ends_.pop_front();
    }
    ms_per_end_ = ToMillis(now - since_) / static_cast<double>(ends_.size());
  }
  // Called when no job runs or waits. The last rate stays valid until there are new ends.
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
