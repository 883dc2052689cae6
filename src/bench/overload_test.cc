#include "bench/overload.h"

#include <gtest/gtest.h>

namespace tutti::bench {
namespace {

Status HttpStatus(StatusCode code) { return {code, "http_status", "HTTP"}; }

TEST(OverloadFiguresTest, OnlyARefusalThatSaysWhenToComeAgainIsOne) {
  LevelResult level;
  level.records.resize(5);
  level.records[0].status =
      HttpStatus(StatusCode::kUnavailable).WithRetryAfter(std::chrono::seconds(1));
  level.records[0].due_s = 0.5;
  level.records[0].sent_s = 1;
  level.records[0].end_s = 1.25;
  level.records[1].status =
      HttpStatus(StatusCode::kResourceExhausted).WithRetryAfter(std::chrono::seconds(1));
  level.records[2].status = HttpStatus(StatusCode::kUnavailable);
  level.records[3].status =
      Unavailable("unreachable", "closed").WithRetryAfter(std::chrono::seconds(1));
  level.records[4].status =
      HttpStatus(StatusCode::kInvalidArgument).WithRetryAfter(std::chrono::seconds(1));
  const OverloadFigures figures = FiguresOf(level, 10, 0);
  EXPECT_EQ(figures.answered, 0);
  EXPECT_EQ(figures.refused, 2);
  EXPECT_EQ(figures.failed, 3);
  ASSERT_EQ(figures.refusal_s.size(), 2u);
  EXPECT_DOUBLE_EQ(figures.refusal_s[0], 0.25) << "from its sending";
}

TEST(OverloadFiguresTest, GoodputCountsWhatEndedInTimeWithAnEarlyFirstText) {
  LevelResult level;
  level.records.resize(4);
  for (size_t i = 0; i < 4; ++i) {
    level.records[i].due_s = static_cast<double>(i);
    level.records[i].first_s = static_cast<double>(i) + 0.1;
    level.records[i].end_s = static_cast<double>(i) + 1;
  }
  level.records[1].first_s = 1.6;  // 600 ms
  const OverloadFigures any = FiguresOf(level, 3.5, 0), early = FiguresOf(level, 3.5, 500);
  EXPECT_EQ(any.answered, 4);
  EXPECT_DOUBLE_EQ(any.goodput, 2 / 2.5)
      << "from the first one's end; the last ended after the load";
  EXPECT_EQ(early.answered, 4);
  EXPECT_DOUBLE_EQ(early.goodput, 1 / 2.5);
}

TEST(OverloadFiguresTest, ALevelIsRunInEqualSlicesBetweenPeaks) {
  const Slices one = SlicesOf(4, 60), ten = SlicesOf(600, 60), uneven = SlicesOf(100, 60);
  EXPECT_EQ(one.count, 1);
  EXPECT_DOUBLE_EQ(one.seconds, 4);
  EXPECT_DOUBLE_EQ(one.peak_s, 4);
  EXPECT_EQ(ten.count, 10);
  EXPECT_DOUBLE_EQ(ten.seconds, 60);
  EXPECT_DOUBLE_EQ(ten.peak_s, 20);
  EXPECT_EQ(uneven.count, 2);
  EXPECT_DOUBLE_EQ(uneven.seconds, 50);
}

}  // namespace
}  // namespace tutti::bench
