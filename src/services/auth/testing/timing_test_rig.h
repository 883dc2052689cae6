// Whether two kinds of input take the same time: Welch's t-test over interleaved measurements, as
// in "Dude, is my code constant time?" (Reparaz, Balasch, Verbauwhede, DATE 2017).
//
// The kinds are drawn at random before each measurement, so that other load on the machine affects
// both alike. Times above a percentile of all are left out, because they are interrupts. |t| above
// 4.5 occurs by chance once in 10^5 times.
//
// The measurement itself prefers one of its two texts by up to a nanosecond, which a million
// samples of one pair find. Many pairs, with the order drawn for each, average this out.
#pragma once

#include <functional>
#include <span>
#include <string>

namespace tutti::auth {

struct TimingResult {
  double t = 0;
  double mean_a_ns = 0, mean_b_ns = 0;
};

// Writes a[i] or b[i] into `shown` and times `run(i)`, `samples` times for each i. `a` and `b` have
// the same number of texts (at least 2), and all texts have the length of `shown`. t is that of the
// mean differences of the pairs against zero.
TimingResult CompareTexts(std::span<const std::string> a, std::span<const std::string> b,
                          int samples, std::string& shown, const std::function<void(size_t)>& run);

}  // namespace tutti::auth
