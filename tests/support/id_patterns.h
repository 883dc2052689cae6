// Tests that generated ids look random, for every kind of id (row U46).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::support {

// The number of heads of `trials` fair coins is within seven standard deviations of the mean. For
// the counts checked here, chance exceeds this once in 10^11.
inline void ExpectFair(double heads, double trials, const std::string& what) {
  EXPECT_NEAR(heads, trials / 2, 7 * std::sqrt(trials) / 2) << what;
}

// Among `count` ids, four characters and 32 hex digits each, no two are equal. Bits, bytes and the
// differences between successive ids look random.
inline void ExpectNoPattern(int count, const std::function<std::string()>& next) {
  using Id = std::array<uint64_t, 2>;
  std::vector<Id> ids;
  ids.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    const std::string text = next();
    ASSERT_EQ(text.size(), 36u);
    ASSERT_EQ(text.find_first_not_of("0123456789abcdef", 4), std::string::npos) << text;
    ids.push_back(Id{std::stoull(text.substr(4, 16), nullptr, 16),
                     std::stoull(text.substr(20), nullptr, 16)});
  }
  std::array<double, 128> ones{}, flips{};
  std::array<double, 256> bytes{};
  double runs = 0;  // of equal bits, over all ids one after the other
  uint64_t before = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    for (size_t word = 0; word < 2; ++word) {
      const uint64_t bits = ids[i][word];
      const uint64_t changed = i == 0 ? 0 : bits ^ ids[i - 1][word];
      for (size_t bit = 0; bit < 64; ++bit) {
        ones[word * 64 + bit] += static_cast<double>(bits >> bit & 1);
        flips[word * 64 + bit] += static_cast<double>(changed >> bit & 1);
      }
      for (size_t byte = 0; byte < 8; ++byte) ++bytes[bits >> (8 * byte) & 255];
      runs += std::popcount(bits ^ (bits << 1 | before >> 63));
      before = bits;
    }
  }
  for (size_t bit = 0; bit < 128; ++bit) {
    ExpectFair(ones[bit], count, "bit " + std::to_string(bit));
    ExpectFair(flips[bit], count - 1, "from one to the next, bit " + std::to_string(bit));
  }
  ExpectFair(runs, 128.0 * count, "runs of equal bits");
  double chi = 0;
  const double each = 16.0 * count / 256;
  for (const double seen : bytes) chi += (seen - each) * (seen - each) / each;
  EXPECT_NEAR(chi, 255, 7 * std::sqrt(2 * 255.0)) << "of the bytes";
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
  // The nearest two are no nearer than chance has it, and no counter hides in them.
  double least = 1;
  for (size_t i = 1; i < ids.size(); ++i)
    least = std::min(least, std::ldexp(static_cast<double>(ids[i][0] - ids[i - 1][0]), -64));
  EXPECT_GT(least * count * count, 1e-8);
}

}  // namespace tutti::support
