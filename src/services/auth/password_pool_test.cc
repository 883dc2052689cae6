#include "services/auth/password_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

namespace tutti::auth {
namespace {

// A job that waits until it is let go.
struct Gate {
  std::promise<void> open;
  std::shared_future<void> opened = open.get_future().share();
};

TEST(PasswordPoolTest, AThousandJobsRunFourAtOnceOrAreRefusedAtOnce) {
  std::atomic<int> running = 0, most = 0, done = 0, refused = 0;
  {
    Gate gate;
    PasswordPool pool({.threads = 100, .most_waiting = 64});
    for (int i = 0; i < 1000; ++i) {
      pool.Run([&](const Status& start) {
        if (!start.ok()) {
          EXPECT_EQ(start.reason(), "overloaded");
          EXPECT_TRUE(start.retry_after().has_value());
          ++refused;
          return;
        }
        const int now = ++running;
        int before = most;
        while (now > before && !most.compare_exchange_weak(before, now)) continue;
        gate.opened.wait();
        --running;
        ++done;
      });
    }
    EXPECT_GE(refused, 1000 - 64 - PasswordPool::kMostThreads);
    while (running < PasswordPool::kMostThreads) std::this_thread::yield();
    gate.open.set_value();
    while (done + refused < 1000) std::this_thread::yield();
  }
  EXPECT_EQ(most, PasswordPool::kMostThreads);
  EXPECT_LE(done, 64 + PasswordPool::kMostThreads);
}

TEST(PasswordPoolTest, AtTheEndWhatRunsIsFinishedAndWhatWaitsIsTold) {
  std::atomic<int> ran = 0, told = 0;
  std::promise<void> begun;
  Gate gate;
  auto pool = std::make_unique<PasswordPool>(PasswordPool::Options{.threads = 1});
  pool->Run([&](const Status&) {
    begun.set_value();
    gate.opened.wait();
    ++ran;
  });
  begun.get_future().wait();
  for (int i = 0; i < 3; ++i) {
    pool->Run([&](const Status& start) {
      EXPECT_TRUE(start.ok() || start.reason() == "draining") << start;
      ++(start.ok() ? ran : told);
    });
  }
  std::thread end([&] { pool.reset(); });
  gate.open.set_value();
  end.join();
  EXPECT_GE(ran, 1);
  EXPECT_EQ(ran + told, 4) << "each is called once";
}

}  // namespace
}  // namespace tutti::auth
