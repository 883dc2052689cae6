// Answers that several servers keep in a real Redis. Each "server" is an ExactCache with a tier.
#include "services/cache/redis_tier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "amount.h"
#include "redis/testing/redis_server.h"
#include "services/cache/exact_cache.h"
#include "services/cache/testing/asking.h"

namespace tutti::cache {
namespace {

using api::CacheOutcome;
using redis::testing::RedisServer;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Answer;
using testing::Asked;
using testing::AskWith;
using testing::Greedy;
using testing::ReadAll;

const std::string kTierSecret = std::string(32, 's');

TimePoint WithinTier(Duration wait) { return std::chrono::steady_clock::now() + wait; }

template <class Condition>
bool ComesTrue(const Condition& condition) {
  const TimePoint end = WithinTier(seconds(20));
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return condition();
}

// Longer than any lookup takes on a busy machine: an answer computed without Redis is not shared.
constexpr Duration kPatient = seconds(10);

struct TierServer {
  explicit TierServer(const RedisServer& redis, std::string secret = kTierSecret,
                      Duration ttl = hours(1), Duration max_wait = kPatient)
      : tier(std::move(RedisTier::Start({.connection = {.url = redis.url(),
                                                        .password = "",
                                                        .connect_timeout = milliseconds(200),
                                                        .reply = {}},
                                         .secret = std::move(secret),
                                         .ttl = ttl,
                                         .max_wait = max_wait}))
                 .value()),
        cache(std::make_shared<ExactCache>(AnswerLimits{.ttl = ttl}, clock, tier)) {
    EXPECT_TRUE(ComesTrue([&] { return tier->asks(); }));
  }
  // Returns the answer to the request; computes `text` on a miss. Each model is loaded separately.
  std::string Get(const std::string& text, api::GenerateRequest request = Greedy(),
                  const std::string& identity = "model 1", bool may_wait = true) {
    Asked asked = AskWith(*cache, std::move(request),
                          {.instance = std::hash<std::string>()(identity),
                           .identity = identity,
                           .may_wait = may_wait});
    if (asked.part == nullptr) return "bypass";
    if (asked.written != nullptr) Answer(*asked.written, {text});
    const std::string given = ReadAll(asked.generation, &usage);
    outcome = asked.outcome();
    age = asked.report->age();
    return given;
  }
  uint64_t written() const { return tier->stats().written; }
  // Computes the answer and waits until Redis has it.
  void Share(const std::string& text, api::GenerateRequest request = Greedy(),
             const std::string& identity = "model 1") {
    const uint64_t before = written();
    EXPECT_EQ(Get(text, std::move(request), identity), text);
    EXPECT_EQ(outcome, CacheOutcome::kMiss);
    EXPECT_TRUE(ComesTrue([&] { return written() > before; }));
  }

  SteadyClock clock;
  std::shared_ptr<RedisTier> tier;
  std::shared_ptr<ExactCache> cache;
  api::Usage usage;
  CacheOutcome outcome = CacheOutcome::kNone;
  Duration age{0};
};

api::GenerateRequest With(const std::function<void(api::GenerateRequest*)>& change) {
  api::GenerateRequest request = Greedy();
  change(&request);
  return request;
}

TEST(RedisTier, WhatOneServerHasComputedTheOthersGive) {
  RedisServer redis;
  TierServer first(redis), second(redis);
  first.Share("Blue, green\0and \xE2\x82\xAC");
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(second.Get("other"), "Blue, green\0and \xE2\x82\xAC");
  EXPECT_EQ(second.outcome, CacheOutcome::kHit);
  EXPECT_TRUE(second.usage.cached_response);
  EXPECT_EQ(second.usage.completion_tokens, 1);
  EXPECT_GE(second.age, milliseconds(15));
  EXPECT_LT(second.age, seconds(20));
  // The answer is also kept locally: Redis is not asked a second time.
  const uint64_t hits = second.tier->stats().hits;
  EXPECT_EQ(second.Get("other"), "Blue, green\0and \xE2\x82\xAC");
  EXPECT_EQ(second.tier->stats().hits, hits);
}

TEST(RedisTier, EventsComeBackAsTheyWere) {
  RedisServer redis;
  TierServer first(redis), second(redis);
  std::vector<std::string> tokens;
  for (int i = 0; i < 300; ++i) tokens.push_back(std::to_string(i) + " \xF0\x9F\x99\x82");
  Asked asked = AskWith(*first.cache, Greedy(), {.identity = "m", .may_wait = true});
  Answer(*asked.written, tokens);
  std::vector<api::StreamEvent> events;
  while (const api::StreamEvent* event = asked.generation.Next()) events.push_back(*event);
  ASSERT_TRUE(ComesTrue([&] { return first.written() == 1; }));
  Asked again = AskWith(*second.cache, Greedy(), {.identity = "m", .may_wait = true});
  ASSERT_EQ(again.written, nullptr);
  size_t i = 0;
  while (const api::StreamEvent* event = again.generation.Next()) {
    ASSERT_LT(i, events.size());
    const api::StreamEvent& was = events[i++];
    EXPECT_EQ(event->kind, was.kind);
    EXPECT_EQ(event->text, was.text);
    EXPECT_EQ(event->token, was.token);
    EXPECT_EQ(event->finish_reason, was.finish_reason);
    EXPECT_EQ(event->usage.completion_tokens, was.usage.completion_tokens);
    ASSERT_EQ(event->logprobs.has_value(), was.logprobs.has_value());
    if (was.logprobs) {
      EXPECT_EQ(event->logprobs->chosen.logprob, was.logprobs->chosen.logprob);
      EXPECT_EQ(event->logprobs->top.size(), was.logprobs->top.size());
    }
  }
  EXPECT_EQ(i, events.size());
}

TEST(RedisTier, WhatDiffersInAnythingIsMissed) {
  RedisServer redis;
  TierServer first(redis), second(redis);
  first.Share("kept");
  EXPECT_EQ(second.Get("a", Greedy("another tenant")), "a");
  EXPECT_EQ(second.Get("b", With([](auto* r) { r->sampling.max_tokens = 7; })), "b");
  EXPECT_EQ(second.Get("c", With([](auto* r) { r->sampling.seed = 7; })), "c");
  EXPECT_EQ(second.Get("d", With([](auto* r) { r->cache_salt = "x"; })), "d");
  EXPECT_EQ(second.Get("e", Greedy(), "model 1 on another instruction set"), "e");
  EXPECT_EQ(second.Get("f", Greedy(), ""), "f");                // a model without an identity
  EXPECT_EQ(second.Get("g", Greedy(), "model 2", false), "g");  // no wait allowed
  EXPECT_EQ(second.Get("h", With([](auto* r) { r->cache_scope = "family"; })), "h");
  const RedisTier::Stats stats = second.tier->stats();
  EXPECT_EQ(stats.hits, 0u);
  EXPECT_EQ(stats.rejected, 0u);
  EXPECT_EQ(stats.misses, 5u);
}

// N45: after a model swap 0 stale hits in 10,000.
TEST(RedisTier, AnotherModelFindsNothingOfTheOneBefore) {
  RedisServer redis;
  TierServer first(redis), second(redis);
  first.Share("old", Greedy(), "weights 0");
  int stale = 0;
  const int swaps = support::Amount(10'000, 500);
  for (int i = 1; i <= swaps; ++i)
    stale += second.Get("new", Greedy(), "weights " + std::to_string(i)) != "new";
  EXPECT_EQ(stale, 0);
  EXPECT_GT(second.tier->stats().misses, static_cast<uint64_t>(swaps) * 9 / 10);
}

TEST(RedisTier, ClientsWishesHold) {
  RedisServer redis;
  TierServer first(redis), second(redis), third(redis);
  first.Share("old");
  std::this_thread::sleep_for(milliseconds(30));
  const auto aged = With([](auto* r) { r->cache.max_age = milliseconds(10); });
  const auto anew = With([](auto* r) { r->cache.no_cache = true; });
  const auto never = With([](auto* r) { r->cache.no_store = true; });
  EXPECT_EQ(second.Get("x", never), "bypass");
  EXPECT_EQ(second.Get("newer", anew), "newer");
  EXPECT_EQ(second.outcome, CacheOutcome::kBypass);
  ASSERT_TRUE(ComesTrue([&] { return second.written() == 1; }));
  EXPECT_EQ(third.Get("y"), "newer");
  std::this_thread::sleep_for(milliseconds(30));
  TierServer fourth(redis);
  EXPECT_EQ(fourth.Get("newest", aged), "newest");
  EXPECT_EQ(fourth.outcome, CacheOutcome::kMiss);
}

TEST(RedisTier, ErrorsAndCutAnswersAreNeverKept) {
  RedisServer redis;
  TierServer first(redis), second(redis);
  Asked failed = AskWith(*first.cache, Greedy("a"), {.identity = "m", .may_wait = true});
  testing::Start(*failed.written);
  testing::Write(*failed.written, "half");
  testing::End(*failed.written, 1, Unavailable("overloaded", "no"));
  EXPECT_EQ(ReadAll(failed.generation), "half!overloaded");
  Asked left = AskWith(*first.cache, Greedy("b"), {.identity = "m", .may_wait = true});
  testing::Start(*left.written);
  left.generation = {};
  testing::End(*left.written, 0, {StatusCode::kCancelled, "cancelled", "left"});
  first.Share("whole", Greedy("c"), "m");
  EXPECT_EQ(first.written(), 1u);
  EXPECT_EQ(redis.Connect()
                ->Call({"KEYS", "*:tutti:answers:????*"}, WithinTier(seconds(5)))
                ->items.size(),
            1u);
}

TEST(RedisTier, AFlushIsOneForAllServersThatAskLater) {
  RedisServer redis;
  TierServer first(redis), second(redis), third(redis);
  first.Share("of a", Greedy("a"));
  first.Share("of b", Greedy("b"));
  // A computation begun before the flush is not stored either.
  Asked begun =
      AskWith(*second.cache, Greedy("a"), {.prompt = {9}, .identity = "model 1", .may_wait = true});
  EXPECT_EQ(third.cache->Flush("a"), 0u);
  Answer(*begun.written, {"begun before"});
  EXPECT_EQ(ReadAll(begun.generation), "begun before");
  ASSERT_TRUE(ComesTrue([&] { return second.written() == 1; }));
  EXPECT_EQ(third.Get("new", Greedy("a")), "new");
  EXPECT_EQ(third.Get("new", Greedy("b")), "of b");
  Asked same =
      AskWith(*third.cache, Greedy("a"), {.prompt = {9}, .identity = "model 1", .may_wait = true});
  EXPECT_NE(same.written, nullptr);
  Answer(*same.written, {"anew"});
  EXPECT_EQ(ReadAll(same.generation), "anew");
  TierServer fourth(redis);
  (void)fourth.cache->Flush(std::nullopt);
  EXPECT_EQ(fourth.Get("newest", Greedy("b")), "newest");
}

TEST(RedisTier, AFlushThatRedisDoesNotHearHoldsHereAndIsToldLater) {
  RedisServer redis;
  TierServer first(redis), second(redis);
  first.Share("old");
  redis.Pause();
  (void)second.cache->Flush("t");
  redis.Continue();
  ASSERT_TRUE(ComesTrue([&] { return second.tier->asks(); }));
  EXPECT_EQ(second.Get("new"), "new");
  second.Share("whatever", Greedy("another"));  // pending flushes are written first
  TierServer later(redis);
  EXPECT_NE(later.Get("newer"), "old");  // "new" if Redis got the flush before "new" was asked
}

TEST(RedisTier, WhatSomebodyPlantsOrChangesIsAMiss) {
  RedisServer redis;
  TierServer first(redis);
  first.Share("true");
  first.Share("of another", With([](auto* r) { r->sampling.seed = 1; }));
  const auto connection = redis.Connect();
  const auto call = [&](std::initializer_list<std::string_view> words) {
    return connection->Call(words, WithinTier(seconds(5))).value();
  };
  std::vector<std::string> keys;
  for (const redis::Reply& key : call({"KEYS", "{t}:tutti:answers:????*"}).items)
    if (!key.text.ends_with(":era")) keys.push_back(key.text);
  ASSERT_EQ(keys.size(), 2u);
  const std::string one = call({"GET", keys[0]}).text, two = call({"GET", keys[1]}).text;
  const auto given = [&] {
    TierServer reader(redis);
    std::vector<std::string> both = {
        reader.Get("computed"),
        reader.Get("computed", With([](auto* r) { r->sampling.seed = 1; }))};
    return both;
  };
  EXPECT_EQ(given(), (std::vector<std::string>{"true", "of another"}));
  // Values exchanged between keys.
  call({"SET", keys[0], two});
  call({"SET", keys[1], one});
  EXPECT_EQ(given(), (std::vector<std::string>{"computed", "computed"}));
  // Truncated, extended, with a flipped bit anywhere, and replaced.
  const auto restore = [&] {
    call({"SET", keys[0], one});
    call({"SET", keys[1], two});
  };
  std::vector<std::string> planted = {"",        "x",           one.substr(0, one.size() - 1),
                                      one + "x", one.substr(1), std::string(one.size(), '\0')};
  for (size_t at = 0; at < one.size(); at += std::max<size_t>(one.size() / 24, 1)) {
    planted.push_back(one);
    planted.back()[at] = static_cast<char>(planted.back()[at] ^ 1);
  }
  for (const std::string& value : planted) {
    restore();
    call({"SET", keys[0], value});
    TierServer fresh(redis);
    const std::vector<std::string> both = {
        fresh.Get("computed"), fresh.Get("computed", With([](auto* r) { r->sampling.seed = 1; }))};
    EXPECT_EQ(std::count(both.begin(), both.end(), "computed"), 1);
    EXPECT_EQ(fresh.tier->stats().rejected, 1u);
  }
  // Redis refuses to read a value of another type; the cache treats this as a miss.
  restore();
  call({"DEL", keys[0], keys[1]});
  call({"RPUSH", keys[0], "x"});
  EXPECT_EQ(given(), (std::vector<std::string>{"computed", "computed"}));
  // A server with another secret neither reads nor is read.
  restore();
  TierServer stranger(redis, std::string(32, 'z'));
  EXPECT_EQ(stranger.Get("computed"), "computed");
}

TEST(RedisTier, ErasThatRedisHasLostBeginAnew) {
  RedisServer redis;
  TierServer first(redis), second(redis);
  first.Share("old");
  const auto connection = redis.Connect();
  ASSERT_TRUE(connection->Call({"DEL", "{t}:tutti:answers:era"}, WithinTier(seconds(5))).ok());
  EXPECT_EQ(second.Get("new"), "new");  // the old value may have been flushed earlier
  TierServer third(redis);
  ASSERT_TRUE(ComesTrue([&] { return second.written() == 1; }));
  EXPECT_EQ(third.Get("x"), "new");
}

TEST(RedisTier, AnswersEndWithTheirTime) {
  RedisServer redis;
  TierServer first(redis, kTierSecret, milliseconds(300)),
      second(redis, kTierSecret, milliseconds(300));
  first.Share("old");
  std::this_thread::sleep_for(milliseconds(320));
  EXPECT_EQ(second.Get("new"), "new");
  EXPECT_EQ(RedisTier::Start({.connection = {.url = redis.url(), .password = "", .reply = {}},
                              .secret = std::string(31, 's')})
                .status()
                .reason(),
            "invalid_value");
}

TEST(RedisTier, AnswersTooLongAreNotSent) {
  RedisServer redis;
  TierServer server(redis);
  EXPECT_EQ(server.Get(std::string(2 << 20, 'x')).size(), size_t{2} << 20);
  EXPECT_TRUE(ComesTrue([&] { return server.tier->stats().unwritten == 1; }));
}

TEST(RedisTier, WithoutRedisEveryRequestIsAnsweredAndFewWait) {
  RedisServer redis;
  TierServer server(redis, kTierSecret, hours(1), RedisTier::Options{}.max_wait);
  EXPECT_EQ(server.Get("x"), "x");
  redis.Pause();
  std::vector<double> waits;
  for (int i = 0; i < 1000; ++i) {
    const TimePoint begin = std::chrono::steady_clock::now();
    EXPECT_EQ(server.Get("y", Greedy(), "model " + std::to_string(i + 2)), "y");
    waits.push_back(ToMillis(std::chrono::steady_clock::now() - begin));
  }
  std::sort(waits.begin(), waits.end());
  EXPECT_LE(server.tier->stats().failed, 16u);  // then the breaker is open
  EXPECT_LT(waits[990], 50);                    // the limit is 5 ms; ten times that under load
  EXPECT_FALSE(server.tier->asks());
  redis.Continue();
  EXPECT_TRUE(ComesTrue([&] { return server.tier->asks(); }));
  redis.Kill();
  EXPECT_EQ(server.Get("z", Greedy(), "model z"), "z");
  redis.Start();
  // On a busy machine some lookups exceed their time limit, so try several times.
  int asked = 0;
  EXPECT_TRUE(ComesTrue([&] {
    server.Get("again", Greedy(), "model again " + std::to_string(asked++));
    return server.written() > 1;
  }));
}

}  // namespace
}  // namespace tutti::cache
