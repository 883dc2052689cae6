#include "bench/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace tutti::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Plot, StepsAreRound) {
  EXPECT_DOUBLE_EQ(RoundStep(6, 6), 1);
  EXPECT_DOUBLE_EQ(RoundStep(1299, 6), 250);
  EXPECT_DOUBLE_EQ(RoundStep(0.9, 6), 0.2);
  EXPECT_DOUBLE_EQ(RoundStep(61, 6), 20);
  EXPECT_DOUBLE_EQ(RoundStep(0, 6), 1);
  EXPECT_DOUBLE_EQ(RoundStep(std::numeric_limits<double>::quiet_NaN(), 6), 1);
}

TEST(Plot, EveryPointHasItsMarkAndEveryTextIsEscaped) {
  const Plot plot{"a < b & c", "x", "y", {{"one", {{0, 0, "p"}, {100, 50, "q"}}}, {"two", {}}}};
  const std::string svg = ToSvg(plot);
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; c"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  size_t marks = 0;
  for (size_t at = svg.find("<circle"); at != std::string::npos; at = svg.find("<circle", at + 1))
    ++marks;
  EXPECT_EQ(marks, 2u);
  EXPECT_THAT(svg, HasSubstr("cx=\"70.0\" cy=\"405.0\"")) << "the origin";
  EXPECT_THAT(svg, HasSubstr("cx=\"610.0\" cy=\"40.0\"")) << "the far corner";
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

}  // namespace
}  // namespace tutti::bench
