#include "base/core_wanted.h"

#include <gtest/gtest.h>

#include <thread>

namespace tutti {
namespace {

TEST(CoreWanted, CountsOnceUntilItIsGot) {
  ASSERT_FALSE(CoreWanted::Anybody());
  CoreWanted first, second;
  first.Want();
  first.Want();
  second.Want();
  first.Got();
  EXPECT_TRUE(CoreWanted::Anybody());
  second.Got();
  second.Got();
  EXPECT_FALSE(CoreWanted::Anybody());
  GiveWay();
}

TEST(CoreWanted, WhatGoesWantsNothing) {
  {
    CoreWanted gone;
    gone.Want();
    EXPECT_TRUE(CoreWanted::Anybody());
  }
  EXPECT_FALSE(CoreWanted::Anybody());
}

TEST(UrgentCondVar, ItsThreadWantsACoreFromTheNotificationUntilItWaitsAgain) {
  Mutex mutex;
  UrgentCondVar changed;
  int asked = 0, answered = 0;
  std::thread worker([&] {
    const MutexLock lock(mutex);
    while (answered < 2) {
      while (asked == answered) changed.Wait(mutex);
      EXPECT_TRUE(CoreWanted::Anybody()) << "it runs, and could lose its core";
      ++answered;
    }
  });
  for (int i = 1; i <= 2; ++i) {
    {
      const MutexLock lock(mutex);
      asked = i;
      changed.Notify();
      EXPECT_TRUE(CoreWanted::Anybody());
    }
    for (bool done = false; !done;) {
      const MutexLock lock(mutex);
      done = answered == i;
    }
  }
  worker.join();
}

TEST(UrgentCondVar, AWaitThatTimesOutLeavesNothingWanted) {
  Mutex mutex;
  UrgentCondVar changed;
  const MutexLock lock(mutex);
  changed.Notify();
  EXPECT_FALSE(changed.WaitFor(mutex, std::chrono::milliseconds(1)));
  EXPECT_FALSE(CoreWanted::Anybody());
}

}  // namespace
}  // namespace tutti
