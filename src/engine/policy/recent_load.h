// Recent load of an encoder, for the decision when its next batch starts (dispatch.h). Plain
// values; engine thread.
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

// Number of items that arrive soon after a batch for each item that it delivered: about one if
// clients send their next request as soon as they have a result; half or less if they do not.
class ReturnRate {
 public:
  // A batch of `items` ended at `end`; items that arrive until `end + soon` count.
  void Ended(TimePoint end, int items, Duration soon) {
    // All items that arrived after the batch before the last one are known by now.
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
