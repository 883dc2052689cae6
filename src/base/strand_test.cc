#include "base/strand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <utility>
#include <vector>

#include "waiting.h"

namespace tutti {
namespace {

using support::Call;
using support::Eventually;

TEST(StrandTest, TasksRunOneAfterTheOtherInTheirOrder) {
  ManualClock clock;
  Strand strand(clock);
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) strand.Post([&order, i] { order.push_back(i); });
  Call<int> last;
  strand.Post([done = last.done()] { done(1); });
  last.Get();
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(StrandTest, ATimedTaskRunsAtItsTimeAndNotBefore) {
  ManualClock clock;
  Strand strand(clock);
  std::atomic<int> ran{0};
  strand.PostAt(clock.Now() + std::chrono::hours(1), [&] { ++ran; });
  strand.PostAt(clock.Now() + std::chrono::hours(2), [&] { ran += 10; });
  clock.Advance(std::chrono::minutes(59));
  strand.Look();
  Call<int> barrier;
  strand.Post([done = barrier.done()] { done(1); });
  barrier.Get();
  EXPECT_EQ(ran, 0);
  clock.Advance(std::chrono::minutes(1));
  strand.Look();
  EXPECT_TRUE(Eventually([&] { return ran == 1; }));
}

TEST(StrandTest, WakesThatComeTogetherPumpOnce) {
  ManualClock clock;
  Strand strand(clock);
  std::atomic<int> pumps{0};
  strand.OnWake([&] { ++pumps; });
  Call<int> held, go;
  auto release = std::make_shared<std::promise<void>>();
  strand.Post([done = held.done(), gate = release->get_future().share()] {
    done(1);
    gate.wait();
  });
  held.Get();
  for (int i = 0; i < 100; ++i) strand.Wake();
  release->set_value();
  EXPECT_TRUE(Eventually([&] { return pumps > 0; }));
  Call<int> barrier;
  strand.Post([done = barrier.done()] { done(1); });
  barrier.Get();
  EXPECT_EQ(pumps, 1);
}

TEST(StrandTest, WhatClientsAskIsBounded) {
  ManualClock clock;
  Strand strand(clock, 3);
  auto release = std::make_shared<std::promise<void>>();
  Call<int> held;
  strand.Post([done = held.done(), gate = release->get_future().share()] {
    done(1);
    gate.wait();
  });
  held.Get();
  int taken = 0;
  while (strand.TryPost([] {})) ASSERT_LE(++taken, 3);
  EXPECT_EQ(taken, 3);
  release->set_value();
}

TEST(StrandTest, KnowsItsOwnThread) {
  ManualClock clock;
  Strand strand(clock), other(clock);
  std::promise<std::pair<bool, bool>> seen;
  strand.Post([&] { seen.set_value({strand.OnThisThread(), other.OnThisThread()}); });
  EXPECT_EQ(seen.get_future().get(), std::pair(true, false));
  EXPECT_FALSE(strand.OnThisThread());
}

TEST(StrandTest, NothingRunsAfterItWasStopped) {
  ManualClock clock;
  Strand strand(clock);
  std::atomic<bool> ran{false};
  strand.Stop();
  strand.Post([&] { ran = true; });
  strand.Wake();
  strand.Stop();
  EXPECT_FALSE(ran);
  EXPECT_FALSE(strand.TryPost([] {}));
}

}  // namespace
}  // namespace tutti
