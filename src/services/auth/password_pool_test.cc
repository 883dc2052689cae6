#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "services/auth/password.h"

namespace tutti::auth {
namespace {

// A job that blocks until it is released.
struct Gate {
  std::promise<void> open;
  std::shared_future<void> opened = open.get_future().share();
};

TEST(PasswordPoolTest, AThousandJobsRunFourAtOnceOrAreRefusedAtOnce) {
  std::atomic<int> running = 0, most = 0, done = 0, refused = 0;
  {
    Gate gate;
    PasswordPool pool({.threads = 100, .max_waiting = 64});
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
    EXPECT_GE(refused, 1000 - 64 - PasswordPool::kMaxThreads);
    while (running < PasswordPool::kMaxThreads) std::this_thread::yield();
    gate.open.set_value();
    while (done + refused < 1000) std::this_thread::yield();
  }
  EXPECT_EQ(most, PasswordPool::kMaxThreads);
  EXPECT_LE(done, 64 + PasswordPool::kMaxThreads);
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

// Found with a thousand logins on a slow machine: each hash was computed for a client that had
// given up by then, and no login succeeded.
TEST(PasswordPoolTest, WhoHasWaitedTooLongIsRefusedWithoutWork) {
  Gate gate;
  PasswordPool pool({.threads = 1, .max_wait = std::chrono::milliseconds(50)});
  pool.Run([&](const Status& start) {
    EXPECT_TRUE(start.ok());
    gate.opened.wait();
  });
  std::promise<Status> late, later;
  pool.Run([&](const Status& start) { late.set_value(start); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  gate.open.set_value();
  const Status refused = late.get_future().get();
  EXPECT_EQ(refused.reason(), "overloaded");
  EXPECT_TRUE(refused.retry_after().has_value());
  pool.Run([&](const Status& start) { later.set_value(start); });
  EXPECT_TRUE(later.get_future().get().ok());
}

}  // namespace
}  // namespace tutti::auth
