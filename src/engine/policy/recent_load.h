// What an encoder saw lately, for the decision when its next batch goes (dispatch.h). Plain values;
// engine thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/clock.h"

namespace tutti::engine {

// The share of about the last quarter of a second in which batches ran.
class RecentBusy {
 public:
  void Ran(TimePoint begin, TimePoint end) {
    busy_ = busy_ * Kept(end - until_) + (1 - Kept(end - begin));
    until_ = end;
  }
  double share(TimePoint now) const { return busy_ * Kept(now - until_); }  // 0..1

 private:
  static constexpr Duration kMemory = std::chrono::milliseconds(250);
  static double Kept(Duration passed) { return std::exp(-ToSeconds(passed) / ToSeconds(kMemory)); }
  double busy_ = 0;
  TimePoint until_{};
};

// How many items come soon after a batch for each that it delivered: about one where clients send
// their next as soon as they have a result; half or less where clients do not wait for each other.
class ReturnRate {
 public:
  // A batch of so many items ended; those that come until `soon` later count.
  void Ended(TimePoint end, int items, Duration soon) {
    // What came after the batch before the last has all been told by now.
    if (before_.items > 0) {
      const double rate = static_cast<double>(before_.came) / before_.items;
      rate_ += (std::min(rate, 2.0) - rate_) / 8;
    }
    before_ = last_;
    last_ = {end, soon, items, 0};
  }
  void Came(int items, TimePoint at) {
    Batch& batch = at > last_.end ? last_ : before_;
    if (at > batch.end && at - batch.end <= batch.soon) batch.came += items;
  }
  // Items expected after the last batch.
  double expected() const { return rate_ * last_.items; }

 private:
  struct Batch {
    TimePoint end{};
    Duration soon{0};
    int items = 0, came = 0;
  };
  Batch before_, last_;
  double rate_ = 0;
};

}  // namespace tutti::engine
