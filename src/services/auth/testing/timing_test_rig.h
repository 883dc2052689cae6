// Whether two kinds of input take the same time: Welch's t-test over interleaved measurements, as
// in "Dude, is my code constant time?" (Reparaz, Balasch, Verbauwhede, DATE 2017).
//
// The kinds are drawn at random before each measurement, so that other load on the machine affects
// both alike. Times above a percentile of all are left out, because they are interrupts. |t| above
// 4.5 occurs by chance once in 10^5 times.
#pragma once

#include <functional>

namespace tutti::auth {

struct TimingResult {
  double t = 0;
  double mean_a_ns = 0, mean_b_ns = 0;
};

// Times `run` after `prepare(false)` and after `prepare(true)`, `samples` in all. Both must prepare
// their data at the same address, because the address affects the time.
TimingResult CompareTimes(int samples, const std::function<void(bool second)>& prepare,
                          const std::function<void()>& run);

}  // namespace tutti::auth
