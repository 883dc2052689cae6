#include "redis/pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "amount.h"
#include "base/random.h"
#include "redis/testing/redis_server.h"

namespace tutti::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::RedisServer;

TimePoint Within(Duration wait) { return std::chrono::steady_clock::now() + wait; }

Pool::Options OptionsFor(const RedisServer& server, size_t connections) {
  return {
      .connection = {.url = server.url(),
                     .password = "",
                     .connect_timeout = milliseconds(200),
                     .reply = {}},
      .connections = connections,
      .breaker = {.failures = 3, .first_wait = milliseconds(20), .longest_wait = milliseconds(100)},
      .wanted = nullptr};
}

// The row's test asks for 100,000: TUTTI_REDIS_CANCELS.
int Cancels() {
  const char* const asked = std::getenv("TUTTI_REDIS_CANCELS");
  return asked != nullptr ? std::atoi(asked) : support::Amount(10'000, 1'000);
}

TEST(Pool, ACancelledCallNeverReturnsItsConnection) {
  // Four threads ask questions that only they know, and half of the calls are cancelled between
  // question and answer: no later borrower may receive the answer to another thread's question.
  RedisServer server;
  SteadyClock clock;
  Pool pool(OptionsFor(server, 4), &clock);
  pool.Tend();
  std::atomic<int> cancels{0}, foreign{0}, answered{0};
  std::atomic<bool> done{false};
  const int most = Cancels();
  std::thread tender([&] {
    while (!done) {
      pool.Tend();
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Random random(static_cast<uint64_t>(t));
      for (int i = 0; cancels < most; ++i) {
        Result<Pool::Loan> loan = pool.Take(Within(seconds(5)));
        if (!loan.ok()) continue;
        Connection& connection = **loan;
        const std::string own = std::to_string(t) + "/" + std::to_string(i);
        const std::string_view words[] = {"ECHO", own};
        if (!connection.Send(words, Within(seconds(5))).ok()) continue;
        if (random.Chance(0.5)) {
          ++cancels;
          continue;
        }
        const Result<Reply> reply = connection.Receive(Within(seconds(5)));
        if (!reply.ok()) continue;
        ++answered;
        if (reply->text != own) ++foreign;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  tender.join();
  EXPECT_EQ(foreign, 0);
  EXPECT_GE(cancels, most);
  EXPECT_GT(answered, most / 4);
  EXPECT_GE(pool.stats().thrown_away, static_cast<uint64_t>(most));
  EXPECT_EQ(pool.stats().opened, 0u);  // a cancel is no failure
}

TEST(Pool, IsBoundedAndItsWaitsAre) {
  RedisServer server;
  SteadyClock clock;
  Pool pool(OptionsFor(server, 2), &clock);
  EXPECT_EQ(pool.Take(Within(milliseconds(5))).status().reason(), "redis_timeout");  // none yet
  pool.Tend();
  EXPECT_EQ(pool.stats().idle, 2u);
  {
    const auto first = pool.Take(Within(seconds(1)));
    const auto second = pool.Take(Within(seconds(1)));
    ASSERT_TRUE(first.ok() && second.ok());
    pool.Tend();
    EXPECT_EQ(pool.stats().idle, 0u);
    const TimePoint begin = std::chrono::steady_clock::now();
    EXPECT_EQ(pool.Take(Within(milliseconds(5))).status().reason(), "redis_timeout");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(1));
  }
  EXPECT_EQ(pool.stats().idle, 2u);
  EXPECT_EQ(pool.stats().thrown_away, 0u);
}

TEST(Pool, AFailingRedisIsLeftAloneAndFoundAgain) {
  RedisServer server;
  SteadyClock clock;
  Pool pool(OptionsFor(server, 4), &clock);
  pool.Tend();
  server.Pause();
  int waited = 0;
  for (int i = 0; i < 50; ++i) {
    Result<Pool::Loan> loan = pool.Take(Within(milliseconds(5)));
    if (!loan.ok()) {
      EXPECT_EQ(loan.status().reason(), "redis_unreachable");
      continue;
    }
    ++waited;
    EXPECT_EQ((*loan)->Call({"PING"}, Within(milliseconds(5))).status().reason(), "redis_timeout");
  }
  EXPECT_EQ(waited, 3);  // then the breaker is open
  EXPECT_FALSE(pool.stats().up);
  std::this_thread::sleep_for(milliseconds(25));
  pool.Tend();  // tries, and is not answered
  EXPECT_FALSE(pool.stats().up);
  server.Continue();
  const TimePoint end = Within(seconds(20));
  while (!pool.stats().up && std::chrono::steady_clock::now() < end) {
    pool.Tend();
    std::this_thread::sleep_for(milliseconds(5));
  }
  pool.Tend();
  Result<Pool::Loan> loan = pool.Take(Within(seconds(1)));
  ASSERT_TRUE(loan.ok());
  EXPECT_EQ((*loan)->Call({"PING"}, Within(seconds(5)))->text, "PONG");
}

TEST(Pool, WhatRedisClosedMeanwhileIsNotLent) {
  RedisServer server;
  SteadyClock clock;
  Pool pool(OptionsFor(server, 3), &clock);
  pool.Tend();
  server.Kill();
  server.Start();
  EXPECT_EQ(pool.Take(Within(milliseconds(5))).status().reason(), "redis_timeout");
  EXPECT_EQ(pool.stats().thrown_away, 3u);
  pool.Tend();
  EXPECT_TRUE(pool.Take(Within(seconds(1))).ok());
}

}  // namespace
}  // namespace tutti::redis
