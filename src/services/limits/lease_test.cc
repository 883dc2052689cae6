#include "services/limits/lease.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <string>

#include "base/random.h"

namespace tutti::limits {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Quota kQuota = {300, minutes(1)};
constexpr Duration kNext = std::chrono::hours(5);

TimePoint At(Duration time) { return TimePoint(std::chrono::hours(1) + time); }

// The logic of RedisQuotas' script, for one quota.
struct Bucket {
  int64_t missing = 0;
  QuotaGrant Take(const Quota& quota, const Lease::Ask& ask) {
    missing = std::max<int64_t>(missing + ask.charge, 0);
    const int64_t leased = std::clamp<int64_t>(quota.limit - missing, 0, ask.want);
    missing += leased;
    return {.leased = leased, .remaining = quota.limit - missing};
  }
};

bool Passes(Lease* lease, int64_t units, TimePoint now, const Quota& quota = kQuota) {
  if (lease->RetryAfter(quota, units, now, kNext) > Duration(0)) return false;
  lease->Spend(units, now);
  return true;
}

TEST(Lease, AChunkIsTwoPercentAndOfSmallLimitsEightOrAQuarter) {
  EXPECT_EQ(ChunkOf(1), 1);
  EXPECT_EQ(ChunkOf(4), 1);
  EXPECT_EQ(ChunkOf(20), 5);
  EXPECT_EQ(ChunkOf(300), 8);
  EXPECT_EQ(ChunkOf(1000), 20);
  EXPECT_EQ(ChunkOf(1'000'000), 20'000);
}

TEST(Lease, OnCreditNoMoreThanAChunkPassesUntilTheOthersAreTold) {
  Lease lease;
  int passed = 0;
  while (Passes(&lease, 1, At(seconds(0)))) ++passed;
  EXPECT_EQ(passed, 8);
  EXPECT_TRUE(lease.Wants(kQuota, At(seconds(0))));
  lease.Missed(1);
  Bucket bucket;
  const Lease::Ask ask = lease.Begin(kQuota, At(seconds(0)));
  EXPECT_EQ(ask.charge, 8);
  EXPECT_EQ(ask.want, 9);                           // a chunk, and the missed unit
  EXPECT_FALSE(Passes(&lease, 1, At(seconds(0))));  // the report is not confirmed yet
  EXPECT_FALSE(lease.Wants(kQuota, At(seconds(0))));
  lease.Granted(ask, bucket.Take(kQuota, ask), At(seconds(0)));
  EXPECT_EQ(lease.Remaining(kQuota, At(seconds(0))), 300 - 8);
  while (Passes(&lease, 1, At(seconds(0)))) ++passed;
  EXPECT_EQ(passed, 8 + 9 + 8);
}

TEST(Lease, WhereNothingIsLeftNothingIsOnCredit) {
  Lease lease;
  Bucket bucket{.missing = 300};
  ASSERT_TRUE(Passes(&lease, 1, At(seconds(0))));
  const Lease::Ask ask = lease.Begin(kQuota, At(seconds(0)));
  lease.Granted(ask, bucket.Take(kQuota, ask), At(seconds(0)));
  EXPECT_FALSE(Passes(&lease, 1, At(seconds(0))));
  // 300 a minute refill one unit per 200 ms; one unit is owed.
  EXPECT_EQ(lease.RetryAfter(kQuota, 1, At(seconds(0)), kNext), milliseconds(400));
  lease.Missed(1);
  EXPECT_FALSE(lease.Wants(kQuota, At(milliseconds(100))));  // it would not help
  EXPECT_TRUE(Passes(&lease, 1, At(milliseconds(400))));
  EXPECT_FALSE(Passes(&lease, 1, At(milliseconds(400))));
  // A daily quota does not refill, so after a second the shared store is asked again.
  const Quota day = {1000, Duration(0)};
  Lease of_day;
  ASSERT_TRUE(Passes(&of_day, 1, At(seconds(0)), day));
  const Lease::Ask asked = of_day.Begin(day, At(seconds(0)));
  of_day.Granted(asked, {.leased = 0, .remaining = 0}, At(seconds(0)));
  EXPECT_EQ(of_day.RetryAfter(day, 1, At(seconds(0)), kNext), kNext);
  of_day.Missed(1);
  EXPECT_FALSE(of_day.Wants(day, At(milliseconds(999))));
  EXPECT_TRUE(of_day.Wants(day, At(seconds(1))));
}

TEST(Lease, ARequestOfMoreThanAChunkPassesByWhatWasLastHeard) {
  const Quota tokens = {100'000, minutes(1)};
  Lease lease;
  Bucket bucket{.missing = 50'000};
  ASSERT_TRUE(Passes(&lease, 1, At(seconds(0)), tokens));
  Lease::Ask ask = lease.Begin(tokens, At(seconds(0)));
  lease.Granted(ask, bucket.Take(tokens, ask), At(seconds(0)));
  EXPECT_FALSE(Passes(&lease, 60'000, At(seconds(0)), tokens));
  EXPECT_TRUE(Passes(&lease, 40'000, At(seconds(0)), tokens));
  EXPECT_FALSE(Passes(&lease, 5'000, At(seconds(0)), tokens));  // until the debt is reported
  ask = lease.Begin(tokens, At(seconds(0)));
  lease.Granted(ask, bucket.Take(tokens, ask), At(seconds(0)));
  EXPECT_TRUE(Passes(&lease, 5'000, At(seconds(0)), tokens));
}

TEST(Lease, WhatIsNotUsedGoesBack) {
  Lease lease;
  Bucket bucket;
  ASSERT_TRUE(Passes(&lease, 1, At(seconds(0))));
  Lease::Ask ask = lease.Begin(kQuota, At(seconds(0)));
  lease.Granted(ask, bucket.Take(kQuota, ask), At(seconds(0)));
  EXPECT_EQ(bucket.missing, 9);
  EXPECT_FALSE(lease.AtRest());
  EXPECT_FALSE(lease.Idle(At(milliseconds(999))));
  ASSERT_TRUE(lease.Idle(At(seconds(1))));
  ask = lease.Begin(kQuota, At(seconds(1)));
  EXPECT_EQ(ask.charge, -8);
  EXPECT_EQ(ask.want, 0);
  lease.Granted(ask, bucket.Take(kQuota, ask), At(seconds(1)));
  EXPECT_EQ(bucket.missing, 1);
  EXPECT_TRUE(lease.AtRest());
  // Estimated too long: the excess is returned at once, except for one chunk.
  const Quota tokens = {100'000, minutes(1)};
  Lease reckoned;
  Bucket of_tokens;
  ASSERT_TRUE(Passes(&reckoned, 30'000, At(seconds(0)), tokens));
  ask = reckoned.Begin(tokens, At(seconds(0)));
  reckoned.Granted(ask, of_tokens.Take(tokens, ask), At(seconds(0)));
  reckoned.GiveBack(29'000);
  ASSERT_TRUE(reckoned.Wants(tokens, At(seconds(0))));
  ask = reckoned.Begin(tokens, At(seconds(0)));
  reckoned.Granted(ask, of_tokens.Take(tokens, ask), At(seconds(0)));
  EXPECT_EQ(of_tokens.missing, 1'000 + 2'000);
}

TEST(Lease, WhatMayNotHaveBeenToldIsToldAgain) {
  Lease lease;
  Bucket bucket;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Passes(&lease, 1, At(seconds(0))));
  const Lease::Ask lost = lease.Begin(kQuota, At(seconds(0)));
  lease.Failed(kQuota, lost, At(seconds(0)));
  const Lease::Ask again = lease.Begin(kQuota, At(seconds(1)));
  EXPECT_EQ(again.charge, 5);
  lease.Failed(kQuota, again, At(seconds(61)));  // in that time it has come back by itself
  EXPECT_TRUE(lease.AtRest());
}

TEST(Lease, AnotherDayBeginsAnewAndAnAnswerOfTheOldOneChangesNothing) {
  const Quota day = {1000, Duration(0)};
  Lease lease;
  ASSERT_TRUE(Passes(&lease, 5, At(seconds(0)), day));
  const Lease::Ask ask = lease.Begin(day, At(seconds(0)));
  lease.Reset();
  lease.Granted(ask, {.leased = ask.want, .remaining = -7}, At(seconds(0)));
  EXPECT_TRUE(lease.AtRest());
  EXPECT_EQ(lease.Remaining(day, At(seconds(0))), 1000);
}

// Servers exchange at random moments, and answers are late or lost: together they never exceed the
// quota plus a chunk each, and in time they use all of it except a chunk each.
TEST(Lease, OfAllServersTogetherNoMorePassesThanTheQuotaAndAChunkOfEach) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const Quota quota = {random.Between(20, 2'000), Duration(0)};
    const int64_t chunk = ChunkOf(quota.limit);
    constexpr int kServers = 5;
    std::array<Lease, kServers> servers;
    std::map<int, std::pair<Lease::Ask, QuotaGrant>> under_way;  // answered there, not yet here
    Bucket bucket;
    int64_t passed = 0;
    const TimePoint now = At(seconds(0));
    for (int step = 0; step < 40'000; ++step) {
      const int i = static_cast<int>(random.Below(kServers));
      Lease& server = servers[static_cast<size_t>(i)];
      if (random.Chance(0.7)) {
        if (Passes(&server, 1, now, quota)) {
          ++passed;
        } else {
          server.Missed(1);
        }
      } else if (const auto answer = under_way.find(i); answer != under_way.end()) {
        server.Granted(answer->second.first, answer->second.second, now);
        under_way.erase(answer);
      } else if (server.Wants(quota, now)) {
        const Lease::Ask ask = server.Begin(quota, now);
        under_way[i] = {ask, bucket.Take(quota, ask)};
      }
      ASSERT_LE(passed, quota.limit + kServers * chunk) << "seed " << seed;
    }
    EXPECT_GE(passed, quota.limit - kServers * chunk) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tutti::limits
