#include "engine/policy/dispatch.h"

#include <gtest/gtest.h>

namespace tutti::engine {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

const TimePoint kStart{std::chrono::seconds(100)};

// A batch of 20 has just ended, 4 items arrived during it, and holding them pays.
DispatchView Paying() {
  DispatchView v;
  v.now = v.last_end = kStart;
  v.oldest = kStart - milliseconds(2);
  v.items = v.piled_up = 4;
  v.expected = 20;
  v.busy = 0.9;
  v.fixed = milliseconds(8);
  v.estimate = milliseconds(9);
  v.window = milliseconds(10);
  return v;
}

TEST(Dispatch, ADeviceThatWasFreeGetsWhatWaitsAtOnce) {
  DispatchView v = Paying();
  v.oldest = kStart;  // arrived when the batch had ended
  EXPECT_EQ(HoldUntil(v), kStart);
  v.last_end = TimePoint::min();
  v.oldest = kStart - milliseconds(1);
  EXPECT_EQ(HoldUntil(v), kStart);
}

TEST(Dispatch, WhatPiledUpBehindABatchIsHeldWhileMergingSavesMore) {
  EXPECT_EQ(HoldUntil(Paying()), kStart + milliseconds(4));  // half of what it saves
}

TEST(Dispatch, AFullBatchGoesAtOnce) {
  DispatchView v = Paying();
  v.full = true;
  EXPECT_EQ(HoldUntil(v), kStart);
}

TEST(Dispatch, NothingIsHeldWhereItWouldNotPay) {
  DispatchView v = Paying();
  v.busy = 0.4;  // the device has time to spare
  EXPECT_EQ(HoldUntil(v), kStart);
  v = Paying();
  v.expected = 3;  // fewer than piled up: clients that do not wait for each other
  EXPECT_EQ(HoldUntil(v), kStart);
  v = Paying();
  v.items = 24;  // those that were expected are here
  EXPECT_EQ(HoldUntil(v), kStart);
  v = Paying();
  v.estimate = milliseconds(17);  // the head is the smaller part
  EXPECT_EQ(HoldUntil(v), kStart);
  v = Paying();
  v.window = Duration(0);
  EXPECT_EQ(HoldUntil(v), kStart);
}

TEST(Dispatch, TheWindowIsTheLongestWaitOfTheOldest) {
  DispatchView v = Paying();
  v.fixed = v.estimate = milliseconds(50);
  v.window = milliseconds(10);
  v.oldest = kStart - milliseconds(3);
  EXPECT_EQ(HoldUntil(v), kStart + milliseconds(7));
  v.oldest = kStart - milliseconds(30);
  EXPECT_EQ(HoldUntil(v), kStart);
}

TEST(Dispatch, ADeadlineEndsTheHoldInTime) {
  DispatchView v = Paying();
  v.deadline = kStart + milliseconds(20);
  EXPECT_EQ(HoldUntil(v), kStart + milliseconds(2));  // twice the estimate before it
  v.deadline = kStart + milliseconds(5);
  EXPECT_EQ(HoldUntil(v), kStart);
}

TEST(RecentBusy, FollowsAConstantLoadAndForgetsIt) {
  RecentBusy busy;
  TimePoint t = kStart;
  for (int i = 0; i < 1000; ++i) {
    busy.Ran(t, t + milliseconds(2));
    t += milliseconds(4);
  }
  EXPECT_NEAR(busy.share(t), 0.5, 0.02);
  EXPECT_LT(busy.share(t + std::chrono::seconds(2)), 0.01);
  busy.Ran(t, t + std::chrono::seconds(3));
  EXPECT_NEAR(busy.share(t + std::chrono::seconds(3)), 1, 0.01);
}

// Eight clients that send again 0.5 ms after each result, in two groups that take turns.
TEST(ReturnRate, IsAboutOneWhereClientsWaitForTheirResults) {
  ReturnRate returns;
  TimePoint t = kStart;
  for (int i = 0; i < 100; ++i) {
    const int size = i % 2 ? 3 : 5;
    t += milliseconds(8);
    returns.Ended(t, size, milliseconds(4));
    returns.Came(size, t + microseconds(500));
  }
  EXPECT_NEAR(returns.expected(), 3, 0.1);
}

TEST(ReturnRate, IsAtMostHalfWhereTheyDoNot) {
  ReturnRate returns;
  TimePoint t = kStart, next = kStart;
  for (int i = 0; i < 200; ++i) {
    t += milliseconds(8);
    returns.Ended(t, 16, milliseconds(4));
    // Reported at the next batch boundary, with the time of arrival.
    for (; next < t; next += microseconds(500)) returns.Came(1, next);
  }
  EXPECT_NEAR(returns.expected(), 8, 1);
}

}  // namespace
}  // namespace tutti::engine
