// Whether the time that something takes grows in proportion to its input. Any thread.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "cpu_time.h"

namespace tutti::support {

// Measures `seconds_of(bytes)`, the processor time of one run over an input of that many bytes,
// at `most_bytes` and at a sixteenth of it, and fails if every doubling between the two takes more
// than 2.3 times the time on average: 2.3^4 = 28, where linear time gives 16 and quadratic 256. One
// doubling alone would not do: the caches and the allocator change the price of a byte by half from
// one size to the next. A sanitizer's allocator changes it more, so that the limit is twice that.
// The best of several runs of each in turn counts, and the whole is tried anew where a machine
// changed its speed meanwhile.
template <typename SecondsOf>
::testing::AssertionResult TakesLinearTime(size_t most_bytes, const SecondsOf& seconds_of) {
  constexpr int kRounds = 10;
  constexpr int kRuns = 3;
  constexpr size_t kGrowth = 16;
  const double limit = std::pow(2.3, std::log2(kGrowth)) * (kSlower > 1 ? 2 : 1);
  double least = 0;
  double most = 0;
  for (int round = 0; round < kRounds; ++round) {
    least = most = 1e9;
    for (int run = 0; run < kRuns; ++run) {
      least = std::min(least, seconds_of(most_bytes / kGrowth));
      most = std::min(most, seconds_of(most_bytes));
    }
    if (most < limit * least) return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << most_bytes / kGrowth << " bytes take " << least << " s, " << most_bytes << " take "
         << most << " s: " << most / least << " times as long, and " << limit << " is the limit";
}

}  // namespace tutti::support
