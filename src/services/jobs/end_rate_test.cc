#include <gtest/gtest.h>

#include "services/jobs/jobs.h"

namespace tutti::jobs {
namespace {

constexpr Duration kRound = std::chrono::milliseconds(1600);

TEST(EndRate, OfJobsThatEndTogetherIsTheRoundsOverTheirNumber) {
  EndRate rate(128);
  TimePoint now{};
  rate.Begin(now);
  for (int round = 0; round < 50; ++round) {
    now += kRound;
    for (int i = 0; i < 16; ++i) {
      rate.End(now + std::chrono::microseconds(300 * i));
      if (round < 8 && i < 15) continue;  // before the window is full
      EXPECT_NEAR(rate.ms_per_end(), 100, 13) << round << " " << i;
    }
  }
}

TEST(EndRate, FollowsAChangeWithinItsWindow) {
  EndRate rate(16);
  TimePoint now{};
  rate.Begin(now);
  for (int i = 0; i < 100; ++i) rate.End(now += std::chrono::milliseconds(10));
  EXPECT_NEAR(rate.ms_per_end(), 10, 1e-9);
  for (int i = 0; i < 16; ++i) rate.End(now += std::chrono::milliseconds(30));
  EXPECT_NEAR(rate.ms_per_end(), 30, 1e-9);
}

TEST(EndRate, WhatIsBetweenTwoTimesOfWorkDoesNotCount) {
  EndRate rate(16);
  EXPECT_EQ(rate.ms_per_end(), 0);
  TimePoint now{};
  rate.Begin(now);
  rate.End(now += std::chrono::milliseconds(20));
  rate.Idle();
  EXPECT_EQ(rate.ms_per_end(), 20) << "what was known stays so";
  now += std::chrono::hours(1);
  rate.Begin(now);
  rate.Begin(now + std::chrono::seconds(5));
  rate.End(now += std::chrono::milliseconds(40));
  EXPECT_EQ(rate.ms_per_end(), 40);
}

}  // namespace
}  // namespace tutti::jobs
