#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "base/random.h"
#include "services/limits/rate.h"

namespace tutti::limits {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr TimePoint kWindowStart{seconds(1000)};
constexpr Window kTwentyAMinute = {.limit = 20};

TEST(SlidingWindow, The21stWithin60SecondsIsRefusedWithTheWaitUntilTheFirstIsOut) {
  SlidingWindow window;
  for (int i = 0; i < 20; ++i)
    EXPECT_TRUE(window.Take(kTwentyAMinute, kWindowStart + seconds(i))) << i;
  const TimePoint now = kWindowStart + seconds(20);
  EXPECT_FALSE(window.Take(kTwentyAMinute, now));
  EXPECT_EQ(window.RetryAfter(kTwentyAMinute, now), seconds(40));
  EXPECT_EQ(window.Remaining(kTwentyAMinute, now), 0);
  EXPECT_EQ(window.UntilFull(kTwentyAMinute, now), seconds(59));
}

TEST(SlidingWindow, ItSlides) {
  SlidingWindow window;
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(window.Take(kTwentyAMinute, kWindowStart + seconds(i)));
  // As each of the first requests leaves the window, one more passes.
  for (int i = 0; i < 20; ++i) {
    const TimePoint out = kWindowStart + seconds(60 + i);
    EXPECT_FALSE(window.Take(kTwentyAMinute, out - nanoseconds(1)));
    EXPECT_TRUE(window.Take(kTwentyAMinute, out));
    EXPECT_FALSE(window.Take(kTwentyAMinute, out));
  }
}

TEST(SlidingWindow, NoStretchOfItsLengthHoldsMoreThanItsLimit) {
  Random random(3);
  SlidingWindow window;
  std::vector<TimePoint> taken;
  TimePoint now = kWindowStart;
  for (int i = 0; i < 20'000; ++i) {
    now += milliseconds(random.Chance(0.02) ? random.Between(0, 90'000) : random.Between(0, 500));
    const Duration wait = window.RetryAfter(kTwentyAMinute, now);
    const bool took = window.Take(kTwentyAMinute, now);
    ASSERT_EQ(took, wait == Duration(0));
    if (took) taken.push_back(now);
  }
  ASSERT_GT(taken.size(), 1000u);
  for (size_t i = 20; i < taken.size(); ++i) ASSERT_GE(taken[i] - taken[i - 20], seconds(60)) << i;
}

TEST(SlidingWindow, OneThatNeverWasLeavesItsRoom) {
  SlidingWindow window;
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(window.Take(kTwentyAMinute, kWindowStart + seconds(i)));
  window.Undo(kWindowStart + seconds(7));
  window.Undo(kWindowStart + seconds(7));  // no such entry
  const TimePoint now = kWindowStart + seconds(20);
  EXPECT_EQ(window.Remaining(kTwentyAMinute, now), 1);
  EXPECT_TRUE(window.Take(kTwentyAMinute, now));
  EXPECT_FALSE(window.Take(kTwentyAMinute, now));
  EXPECT_EQ(window.RetryAfter(kTwentyAMinute, now), seconds(40));
}

TEST(SlidingWindow, AtRestWhenTheLastIsOut) {
  SlidingWindow window;
  EXPECT_TRUE(window.AtRest(kTwentyAMinute, kWindowStart));
  ASSERT_TRUE(window.Take(kTwentyAMinute, kWindowStart));
  EXPECT_FALSE(window.AtRest(kTwentyAMinute, kWindowStart + seconds(60) - nanoseconds(1)));
  EXPECT_TRUE(window.AtRest(kTwentyAMinute, kWindowStart + seconds(60)));
}

}  // namespace
}  // namespace tutti::limits
