// RecentLoad: how much came and how busy the device was in about the last quarter of a second.
// Exponentially weighted; plain values; engine thread.
#pragma once

#include <chrono>
#include <cmath>

#include "base/clock.h"

namespace tutti::engine {

class RecentLoad {
 public:
  void Came(int items, TimePoint now) {
    items_ = items_ * Kept(now - came_at_) + items;
    came_at_ = now;
  }
  void Ran(TimePoint begin, TimePoint end) {
    busy_ = busy_ * Kept(end - ran_until_) + (1 - Kept(end - begin));
    ran_until_ = end;
  }
  double items_per_second(TimePoint now) const {
    return items_ * Kept(now - came_at_) / ToSeconds(kMemory);
  }
  double busy(TimePoint now) const { return busy_ * Kept(now - ran_until_); }  // 0..1

 private:
  static constexpr Duration kMemory = std::chrono::milliseconds(250);
  static double Kept(Duration passed) { return std::exp(-ToSeconds(passed) / ToSeconds(kMemory)); }
  double items_ = 0, busy_ = 0;
  TimePoint came_at_{}, ran_until_{};
};

}  // namespace tutti::engine
