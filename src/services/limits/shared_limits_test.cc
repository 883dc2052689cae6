// Limits that several servers share: limiters of one process over a real Redis.
#include "services/limits/shared_limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "redis/testing/redis_server.h"
#include "services/limits/limiter.h"

namespace tutti::limits {
namespace {

using redis::testing::RedisServer;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

TimePoint Soon(Duration wait) { return std::chrono::steady_clock::now() + wait; }

template <class Condition>
bool Eventually(const Condition& condition) {
  const TimePoint end = Soon(seconds(20));
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return condition();
}

// The limiter of one of several servers.
struct ServerOfMany {
  explicit ServerOfMany(const RedisServer& redis, bool requests_open = true,
                        bool tokens_open = false)
      : quotas({.url = redis.url(),
                .password = "",
                .connect_timeout = milliseconds(200),
                .reply = {}}),
        limiter({.shared = &quotas, .requests_open = requests_open, .tokens_open = tokens_open},
                &clock, [] { return int64_t{1'800'000'000}; }),
        sharing(std::move(SharingThread::Start(&limiter)).value()) {}

  Result<Reservation> Reserve(const Rules& rules, int64_t tokens = 0) {
    const Subject subject = {SubjectKind::kTenant, "acme", rules, "acme"};
    return limiter.Reserve({&subject, 1}, {.tokens = tokens, .queued_tokens = 0}, &view);
  }
  bool Passes(const Rules& rules, int64_t tokens = 0) {
    Result<Reservation> reserved = Reserve(rules, tokens);
    if (reserved.ok()) reserved->Settle(tokens);
    return reserved.ok();
  }
  bool Up() const { return limiter.sharing().up; }

  SteadyClock clock;
  RedisQuotas quotas;
  Limiter limiter;
  RateLimitView view;
  std::unique_ptr<SharingThread> sharing;
};

TEST(SharedLimits, ThreeServersAdmitALimitOf300AndAChunkOfEachAtMost) {
  RedisServer redis;
  ServerOfMany servers[3] = {ServerOfMany(redis), ServerOfMany(redis), ServerOfMany(redis)};
  for (ServerOfMany& server : servers) ASSERT_TRUE(Eventually([&] { return server.Up(); }));
  const Rules rules = {.requests_per_minute = 300};
  std::atomic<int> passed{0};
  const TimePoint begin = std::chrono::steady_clock::now();
  std::vector<std::thread> clients;
  for (ServerOfMany& server : servers) {
    clients.emplace_back([&] {
      while (std::chrono::steady_clock::now() < begin + seconds(2)) {
        if (server.Passes(rules)) ++passed;
        std::this_thread::sleep_for(microseconds(200));
      }
    });
  }
  for (std::thread& client : clients) client.join();
  const double filled = 5 * ToSeconds(std::chrono::steady_clock::now() - begin);
  EXPECT_GE(passed, 300 - 3 * ChunkOf(300));
  EXPECT_LE(passed, 300 + filled + 3.0 * static_cast<double>(ChunkOf(300)));
  std::printf("passed %d of 300, %.1f had filled\n", passed.load(), filled);
}

TEST(SharedLimits, WhatOneServerHasUsedTheOthersAreTold) {
  RedisServer redis;
  ServerOfMany first(redis), second(redis);
  ASSERT_TRUE(Eventually([&] { return first.Up() && second.Up(); }));
  const Rules rules = {.requests_per_minute = 1000, .tokens_per_day = 100'000};
  ASSERT_TRUE(first.Passes(rules, 60'000));
  ASSERT_TRUE(Eventually([&] {
    (void)second.Passes(rules, 0);
    return second.view.tokens.has_value() && second.view.tokens->remaining <= 40'000;
  }));
  // Unused tokens are available to all servers again.
  Result<Reservation> long_one = second.Reserve(rules, 30'000);
  ASSERT_TRUE(long_one.ok()) << long_one.status();
  long_one->Settle(10'000);
  EXPECT_TRUE(Eventually([&] {
    (void)first.Passes(rules, 0);
    return first.view.tokens->remaining > 25'000 && first.view.tokens->remaining <= 30'000;
  })) << first.view.tokens->remaining;
  const Status refused = first.Reserve(rules, 45'000).status();
  EXPECT_EQ(refused.reason(), "insufficient_quota") << refused;
}

TEST(SharedLimits, WithoutRedisRequestsGoOnAndSpendingWaits) {
  RedisServer redis;
  ServerOfMany server(redis);
  ASSERT_TRUE(Eventually([&] { return server.Up(); }));
  const Rules requests = {.requests_per_minute = 1'000'000}, spend = {.tokens_per_day = 1'000'000};
  EXPECT_TRUE(server.Passes(requests));
  EXPECT_TRUE(server.Passes(spend, 10));
  redis.Pause();
  // No request waits, even before the failure is detected.
  std::vector<Duration> waits;
  const TimePoint end = Soon(milliseconds(600));
  while (std::chrono::steady_clock::now() < end) {
    const TimePoint begin = std::chrono::steady_clock::now();
    EXPECT_TRUE(server.Passes(requests));
    waits.push_back(std::chrono::steady_clock::now() - begin);
    std::this_thread::sleep_for(microseconds(100));
  }
  std::sort(waits.begin(), waits.end());
  EXPECT_LT(ToMillis(waits[waits.size() * 99 / 100]), 5);
  ASSERT_TRUE(Eventually([&] { return !server.Up(); }));
  Status status;
  for (int i = 0; i < 100'000 && status.ok(); ++i) {
    Result<Reservation> reserved = server.Reserve(spend, 1'000);
    status = reserved.status();
    if (reserved.ok()) reserved->Settle(1'000);
  }
  // Only leased units are spent while the store cannot count.
  EXPECT_EQ(status.reason(), "overloaded") << status;
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(status.retry_after().has_value());
  redis.Continue();
  ASSERT_TRUE(Eventually([&] { return server.Up(); }));
  EXPECT_TRUE(server.Passes(spend, 1'000));
  // A restarted Redis has neither scripts nor data.
  redis.Kill();
  ASSERT_TRUE(Eventually([&] { return !server.Up(); }));
  EXPECT_TRUE(server.Passes(requests));
  redis.Start();
  ASSERT_TRUE(Eventually([&] { return server.Up(); }));
  EXPECT_TRUE(Eventually([&] { return server.Passes(spend, 1'000); }));
}

TEST(SharedLimits, TheFailModeIsTheOperators) {
  RedisServer redis;
  redis.Kill();
  ServerOfMany open(redis, true, true), closed(redis, false, false);
  const Rules rules = {.requests_per_minute = 10, .tokens_per_minute = 1000};
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(open.Passes(rules, 100));  // its own count
  EXPECT_EQ(open.Reserve(rules, 1).status().reason(), "rate_limit_exceeded");
  EXPECT_EQ(closed.Reserve(rules, 1).status().reason(), "overloaded");
  // Requests that passed meanwhile are not counted afterwards.
  redis.Start();
  ASSERT_TRUE(Eventually([&] { return open.Up() && closed.Up(); }));
  EXPECT_TRUE(closed.Passes(rules, 1));
}

TEST(SharedLimits, KeysBeginWithTheTenantAndEndByThemselves) {
  RedisServer redis;
  ServerOfMany server(redis);
  ASSERT_TRUE(Eventually([&] { return server.Up(); }));
  const Rules rules = {.requests_per_minute = 10, .tokens_per_minute = 1000, .tokens_per_day = 500};
  ASSERT_TRUE(server.Passes(rules, 100));
  const auto connection = redis.Connect();
  const auto keys = [&] { return connection->Call({"KEYS", "*"}, Soon(seconds(5)))->items; };
  ASSERT_TRUE(Eventually([&] { return keys().size() == 3; }));
  for (const redis::Reply& key : keys()) {
    EXPECT_TRUE(key.text.starts_with("{acme}:tutti:limits:")) << key.text;
    EXPECT_GT(connection->Call({"PTTL", key.text}, Soon(seconds(5)))->integer, 0) << key.text;
  }
}

TEST(SharedLimits, ASubjectAtRestIsForgottenHereToo) {
  RedisServer redis;
  ServerOfMany server(redis);
  ASSERT_TRUE(Eventually([&] { return server.Up(); }));
  ASSERT_TRUE(server.Passes({.requests_per_minute = 60'000}));
  EXPECT_TRUE(Eventually([&] { return server.limiter.DropIdle() == 1; }));
  EXPECT_EQ(server.limiter.subjects(), 0u);
}

TEST(RedisQuotas, CountsAsABucketDoes) {
  RedisServer redis;
  RedisQuotas quotas({.url = redis.url(), .password = "", .reply = {}});
  const auto ask = [&](int64_t charge, int64_t want, Duration period = std::chrono::hours(24)) {
    const QuotaAsk one = {"{t}:q", 100, period, charge, want};
    QuotaGrant grant;
    EXPECT_TRUE(quotas.Exchange({&one, 1}, {&grant, 1}).ok());
    return grant;
  };
  EXPECT_TRUE(quotas.Exchange({}, {}).ok());
  EXPECT_EQ(ask(0, 30).leased, 30);
  EXPECT_EQ(ask(60, 30).leased, 10);
  EXPECT_EQ(ask(0, 1).leased, 0);
  EXPECT_EQ(ask(25, 0).remaining, -25);
  EXPECT_EQ(ask(-40, 0).remaining, 15);
  EXPECT_EQ(ask(-400, 0).remaining, 100);  // never fuller than full
  // The quota refills continuously.
  EXPECT_EQ(ask(50, 0, milliseconds(400)).remaining, 50);
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_GE(ask(0, 0, milliseconds(400)).remaining, 99);
  // A foreign value under the key counts as no value.
  const auto connection = redis.Connect();
  for (const char* planted : {"", "x", "1", "nan nan", "1e999 5", "-5 0", "1 2 3"}) {
    ASSERT_TRUE(connection->Call({"SET", "{t}:q", planted}, Soon(seconds(5))).ok());
    const QuotaGrant grant = ask(0, 10);
    EXPECT_GE(grant.leased, 0) << planted;
    EXPECT_LE(grant.leased, 10) << planted;
  }
  ASSERT_TRUE(connection->Call({"DEL", "{t}:q"}, Soon(seconds(5))).ok());
  ASSERT_TRUE(connection->Call({"RPUSH", "{t}:q", "x"}, Soon(seconds(5))).ok());
  const QuotaAsk one = {"{t}:q", 100, seconds(60), 0, 1};
  QuotaGrant grant;
  EXPECT_EQ(quotas.Exchange({&one, 1}, {&grant, 1}).reason(), "redis_refused");
}

// Regression: lost scripts counted as an outage: quotas that fail closed refused, and those that
// fail open counted locally.
TEST(RedisQuotas, ARedisThatForgotItsScriptsIsToldThemAgainAndCountsOn) {
  RedisServer redis;
  RedisQuotas quotas({.url = redis.url(), .password = "", .reply = {}});
  std::vector<QuotaAsk> asks;
  for (int i = 0; i < 8; ++i) asks.push_back({"{t}:" + std::to_string(i), 100, seconds(0), 10, i});
  std::vector<QuotaGrant> grants(asks.size());
  ASSERT_TRUE(quotas.Exchange(asks, grants).ok());
  const auto connection = redis.Connect();
  const auto statistics = [&](const char* section) {
    return connection->Call({"INFO", section}, Soon(seconds(5)))->text;
  };
  const auto connected = [&] {
    const std::string text = statistics("stats");
    const size_t at = text.find("total_connections_received:");
    return text.substr(at, text.find('\r', at) - at);
  };
  const std::string before = connected();
  ASSERT_TRUE(connection->Call({"SCRIPT", "FLUSH"}, Soon(seconds(5))).ok());
  const Status status = quotas.Exchange(asks, grants);
  ASSERT_TRUE(status.ok()) << status;
  for (int i = 0; i < 8; ++i) {  // each was charged once a time
    EXPECT_EQ(grants[static_cast<size_t>(i)].leased, i);
    EXPECT_EQ(grants[static_cast<size_t>(i)].remaining, 80 - 2 * i);
  }
  EXPECT_EQ(connected(), before) << "on the same connection";
  EXPECT_NE(statistics("commandstats").find("cmdstat_eval:calls=2,"), std::string::npos)
      << "whole once each time, not for each of them: " << statistics("commandstats");
}

TEST(SharedLimits, ScriptsThatAreFlushedAreNoOutage) {
  RedisServer redis;
  ServerOfMany server(redis, false, false);
  ASSERT_TRUE(Eventually([&] { return server.Up(); }));
  const Rules rules = {.requests_per_minute = 1'000'000};
  const auto connection = redis.Connect();
  const TimePoint end = Soon(seconds(1));
  while (std::chrono::steady_clock::now() < end) {
    ASSERT_TRUE(connection->Call({"SCRIPT", "FLUSH"}, Soon(seconds(5))).ok());
    EXPECT_TRUE(server.Passes(rules));
    ASSERT_TRUE(server.Up());
    std::this_thread::sleep_for(milliseconds(5));
  }
}

TEST(RedisQuotas, ManyAreAskedAtOnceAndAnsweredInOrder) {
  RedisServer redis;
  RedisQuotas quotas({.url = redis.url(), .password = "", .reply = {}});
  std::vector<QuotaAsk> asks;
  for (int i = 0; i < 128; ++i)
    asks.push_back({"{t}:" + std::to_string(i), 1000 + i, seconds(0), i, 5});
  std::vector<QuotaGrant> grants(asks.size());
  ASSERT_TRUE(quotas.Exchange(asks, grants).ok());
  for (const QuotaGrant& grant : grants) {
    EXPECT_EQ(grant.leased, 5);
    EXPECT_EQ(grant.remaining, 995);
  }
}

}  // namespace
}  // namespace tutti::limits
