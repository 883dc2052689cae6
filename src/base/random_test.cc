#include "base/random.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

// Known answers of the Random123 distribution (kat_vectors, philox 4x32, 10 rounds).
TEST(Random, PhiloxEqualsThePublishedVectors) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(
      Philox4x32({0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}, {0xffffffffu, 0xffffffffu}),
      (std::array<uint32_t, 4>{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
}

TEST(Random, ADrawDependsOnItsCoordinatesOnly) {
  const double first = UniformAt(7, 1, 42);
  (void)UniformAt(7, 1, 43);
  EXPECT_EQ(UniformAt(7, 1, 42), first);
  EXPECT_NE(UniformAt(7, 2, 42), first);
  EXPECT_NE(UniformAt(8, 1, 42), first);
  EXPECT_NE(UniformAt(7, 1, 42, 1), first);
}

TEST(Random, BelowStaysBelowAndReachesEveryValue) {
  Random random(1);
  int seen[5] = {};
  for (int i = 0; i < 1000; ++i) ++seen[random.Below(5)];
  for (int count : seen) EXPECT_GT(count, 100);
}

}  // namespace
}  // namespace tutti
