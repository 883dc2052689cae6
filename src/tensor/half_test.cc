#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tensor/blocks.h"

namespace tutti::tensor {
namespace {

// The value of a half according to IEEE 754, computed without bit tricks.
double Meaning(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int mantissa = half & 0x3FF;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

bool IsFinite(uint16_t half) { return (half & 0x7C00) != 0x7C00; }

TEST(Half, EveryFiniteHalfWidensToItsValueAndNarrowsBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    if (!IsFinite(half)) continue;
    const float wide = HalfToFloat(half);
    ASSERT_EQ(static_cast<double>(wide), Meaning(half)) << bits;
    ASSERT_EQ(std::signbit(wide), (half & 0x8000) != 0) << bits;
    ASSERT_EQ(FloatToHalf(wide), half) << bits;
  }
}

TEST(Half, EveryMidpointRoundsToEvenAndItsNeighboursToTheNearest) {
  for (uint16_t sign : {uint16_t{0}, uint16_t{0x8000}}) {
    for (uint16_t low = 0; low < 0x7C00; ++low) {
      const uint16_t high = static_cast<uint16_t>(low + 1);
      // Above the largest finite half the next step would be 2^16.
      const double next = high == 0x7C00 ? 65536.0 : Meaning(high);
      const float midpoint = static_cast<float>((Meaning(low) + next) / 2);
      const float flip = sign != 0 ? -1.0f : 1.0f;
      const uint16_t even = (low & 1) != 0 ? high : low;
      ASSERT_EQ(FloatToHalf(flip * midpoint), even | sign) << low;
      ASSERT_EQ(FloatToHalf(flip * std::nextafter(midpoint, 0.0f)), low | sign) << low;
      ASSERT_EQ(FloatToHalf(flip * std::nextafter(midpoint, 1e9f)), high | sign) << low;
    }
  }
}

TEST(Half, InfinityAndNanKeepTheirKind) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(FloatToHalf(infinity), 0x7C00);
  EXPECT_EQ(FloatToHalf(-infinity), 0xFC00);
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::max()), 0x7C00);
  EXPECT_EQ(HalfToFloat(0x7C00), infinity);
  EXPECT_EQ(HalfToFloat(0xFC00), -infinity);
  for (uint32_t bits = 0x7C01; bits < 0x8000; ++bits) {
    ASSERT_TRUE(std::isnan(HalfToFloat(static_cast<uint16_t>(bits)))) << bits;
  }
  for (uint32_t bits = 0x7F800001; bits < 0x80000000; bits += 4099) {
    const uint16_t half = FloatToHalf(std::bit_cast<float>(bits));
    ASSERT_TRUE((half & 0x7C00) == 0x7C00 && (half & 0x3FF) != 0) << bits;
  }
}

// Half way between two values, and closer to it than a float can say.
TEST(Half, DoublesAreRoundedOnce) {
  for (uint32_t low = 0; low < 0x7BFF; ++low) {
    const double below = HalfToFloat(static_cast<uint16_t>(low));
    const double above = HalfToFloat(static_cast<uint16_t>(low + 1));
    const double midpoint = (below + above) / 2;
    const auto even = static_cast<uint16_t>(low + (low & 1));
    ASSERT_EQ(DoubleToHalf(below), low);
    ASSERT_EQ(DoubleToHalf(midpoint), even) << low;
    ASSERT_EQ(DoubleToHalf(std::nextafter(midpoint, 0.0)), low) << low;
    ASSERT_EQ(DoubleToHalf(std::nextafter(midpoint, 1e9)), low + 1) << low;
    ASSERT_EQ(DoubleToHalf(-midpoint), even | 0x8000) << low;
    ASSERT_EQ(DoubleToHalf(std::nextafter(-midpoint, 0.0)), low | 0x8000) << low;
    ASSERT_EQ(DoubleToHalf(std::nextafter(-midpoint, -1e9)), (low + 1) | 0x8000) << low;
  }
  EXPECT_EQ(DoubleToHalf(1e300), 0x7C00);
  EXPECT_EQ(DoubleToHalf(-1e-300), 0x8000);
  EXPECT_TRUE(std::isnan(HalfToFloat(DoubleToHalf(std::nan("")))));
}

TEST(BFloat, WideningIsExactAndNarrowingRoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float wide = BFloatToFloat(static_cast<uint16_t>(bits));
    ASSERT_EQ(std::bit_cast<uint32_t>(wide), bits << 16);
    if (std::isnan(wide)) {
      ASSERT_TRUE(std::isnan(BFloatToFloat(FloatToBFloat(wide))));
      continue;
    }
    ASSERT_EQ(FloatToBFloat(wide), bits);
    if (std::isinf(wide)) continue;
    const uint32_t low = bits << 16;
    ASSERT_EQ(FloatToBFloat(std::bit_cast<float>(low | 0x7FFFu)), bits);
    ASSERT_EQ(FloatToBFloat(std::bit_cast<float>(low | 0x8000u)), bits + (bits & 1));
    ASSERT_EQ(FloatToBFloat(std::bit_cast<float>(low | 0x8001u)), bits + 1);
  }
}

}  // namespace
}  // namespace tutti::tensor
