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

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Plot, EverySampleIsShownAndTheScaleHoldsThem) {
  PlotPoint point{1, 2, ""};
  point.ys = {1, 2, 40};
  const std::string svg = ToSvg(Plot{"spread", "x", "y", {{"one", {point}}}});
  EXPECT_EQ(Count(svg, "class=\"point\""), 1u);
  EXPECT_EQ(Count(svg, "class=\"sample\""), 3u);
  EXPECT_EQ(Count(svg, "class=\"spread\""), 1u);
  EXPECT_THAT(svg, HasSubstr("cx=\"610.0\" cy=\"40.0\"")) << "the largest sample, at the top";
}

TEST(Plot, LogarithmicAxesGoFromAPowerOfTenToAPowerOfTen) {
  const Plot plot{"roof",
                  "x",
                  "y",
                  {{"marks", {{2, 30, ""}, {0, 30, ""}, {200, 300, ""}}, PlotSeries::Style::kMarks},
                   {"limit", {{1, 10, ""}, {1000, 1000, ""}}, PlotSeries::Style::kDashes}},
                  true};
  const std::string svg = ToSvg(plot);
  EXPECT_EQ(Count(svg, "class=\"point\""), 2u) << "0 has no place on such an axis";
  EXPECT_THAT(svg, HasSubstr("M70.0 405.0 L610.0 40.0")) << "the dashed line, corner to corner";
  EXPECT_THAT(svg, HasSubstr("stroke-dasharray"));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(Plot, SeveralPlotsAreInOneFileOneBelowTheOther) {
  const Plot plot{"p", "x", "y", {{"one", {{1, 1, ""}}}}};
  const std::string svg = ToSvg(std::vector<Plot>{plot, plot});
  EXPECT_EQ(Count(svg, "<svg "), 1u);
  EXPECT_THAT(svg, HasSubstr("translate(0 460)"));
  EXPECT_THAT(svg, HasSubstr("height=\"920\""));
}

}  // namespace
}  // namespace tutti::bench
