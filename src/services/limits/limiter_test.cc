#include "services/limits/limiter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"

namespace tutti::limits {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr int64_t kMidnight = 20'000 * 86'400;

class LimiterTest : public ::testing::Test {
 protected:
  std::unique_ptr<Limiter> Make(const Limiter::Options& options = {}) {
    return std::make_unique<Limiter>(options, &clock_, [this] { return unix_s_; });
  }
  void Pass(seconds time) {
    clock_.Advance(time);
    unix_s_ += time.count();
  }
  Result<Reservation> Reserve(const std::vector<Subject>& subjects, const Estimate& estimate = {}) {
    return limiter_->Reserve(subjects, estimate, &view_);
  }
  // The number of requests in a row that pass, each settled with `tokens`.
  int Passing(const std::vector<Subject>& subjects, int tries, int64_t tokens = 0) {
    int passing = 0;
    for (int i = 0; i < tries; ++i) {
      Result<Reservation> reservation = Reserve(subjects, {.tokens = tokens});
      if (!reservation.ok()) continue;
      ++passing;
      reservation->Settle(tokens);
    }
    return passing;
  }

  ManualClock clock_;
  int64_t unix_s_ = kMidnight + 6 * 3600;
  RateLimitView view_;
  std::unique_ptr<Limiter> limiter_ = Make();
};

Subject Tenant(std::string_view name, const Rules& rules) {
  return {SubjectKind::kTenant, name, rules};
}
Subject Key(std::string_view name, const Rules& rules) { return {SubjectKind::kKey, name, rules}; }
Subject Session(std::string_view name, const Rules& rules) {
  return {SubjectKind::kSession, name, rules};
}

TEST_F(LimiterTest, WithoutRulesEverythingPassesAndNothingIsTold) {
  EXPECT_EQ(Passing({Tenant("a", {})}, 1000, 1 << 20), 1000);
  EXPECT_FALSE(view_.requests.has_value());
  EXPECT_FALSE(view_.tokens.has_value());
  EXPECT_TRUE(limiter_->Reserve({}, {}).ok());
}

TEST_F(LimiterTest, AMinutesRequestsPassAtOnceAndTheNextIsToldWhen) {
  const Rules rules = {.requests_per_minute = 60};
  EXPECT_EQ(Passing({Key("k", rules)}, 60), 60);
  const Status refused = Reserve({Key("k", rules)}).status();
  EXPECT_EQ(refused.reason(), "rate_limit_exceeded");
  EXPECT_EQ(refused.retry_after(), seconds(1));
  EXPECT_THAT(refused.message(), HasSubstr("60 requests a minute of this key"));
  ASSERT_TRUE(view_.refused.has_value());
  EXPECT_EQ(view_.refused->limit, LimitKind::kRequests);
  EXPECT_EQ(view_.refused->subject, SubjectKind::kKey);
  EXPECT_EQ(view_.refused->most, 60);
  EXPECT_EQ(view_.refused->remaining, 0);
  EXPECT_EQ(view_.refused->reset, minutes(1));
  EXPECT_EQ(view_.requests->remaining, 0);
  EXPECT_EQ(Passing({Key("other", rules)}, 1), 1);
  Pass(seconds(1));
  EXPECT_EQ(Passing({Key("k", rules)}, 2), 1);
  EXPECT_EQ(limiter_->refusals(LimitKind::kRequests), 2u);
}

// U30: 20 requests per 60 s and session, sliding.
TEST_F(LimiterTest, The21stRequestOfASessionIsRefusedUntilTheWindowHasSlid) {
  const Rules rules = {.window = {.limit = 20}};
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Passing({Session("s", rules)}, 1), 1);
    Pass(seconds(1));
  }
  const Status refused = Reserve({Session("s", rules)}).status();
  EXPECT_EQ(refused.reason(), "rate_limit_exceeded");
  EXPECT_EQ(refused.retry_after(), seconds(40));
  EXPECT_EQ(Passing({Session("another", rules)}, 1), 1);
  Pass(seconds(39));
  EXPECT_EQ(Passing({Session("s", rules)}, 1), 0);
  Pass(seconds(1));
  EXPECT_EQ(Passing({Session("s", rules)}, 2), 1);
  Pass(seconds(1));
  EXPECT_EQ(Passing({Session("s", rules)}, 2), 1);
}

TEST_F(LimiterTest, ARefusalTakesNothingFromAnySubject) {
  const std::vector<Subject> subjects = {
      Tenant("t", {.requests_per_minute = 100, .tokens_per_minute = 10'000, .concurrency = 9}),
      Key("k", {.requests_per_minute = 50, .queued_tokens = 500, .tokens_per_day = 100'000}),
      Session("s", {.window = {.limit = 1}})};
  Result<Reservation> first = Reserve(subjects, {.tokens = 400, .queued_tokens = 100});
  ASSERT_TRUE(first.ok());
  const auto left = [&] {
    RateLimitView tenant, key;
    EXPECT_TRUE(limiter_->Reserve({&subjects[0], 1}, {}, &tenant).ok());
    EXPECT_TRUE(limiter_->Reserve({&subjects[1], 1}, {}, &key).ok());
    return std::vector<int64_t>{tenant.requests->remaining, tenant.tokens->remaining,
                                key.requests->remaining, key.tokens->remaining};
  };
  const std::vector<int64_t> before = left();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(Reserve(subjects, {.tokens = 400, .queued_tokens = 100}).status().reason(),
              "rate_limit_exceeded");
    EXPECT_EQ(view_.refused->subject, SubjectKind::kSession);
  }
  EXPECT_EQ(left(), before);
}

TEST_F(LimiterTest, TokensAreReservedAndSettledByWhatWasUsed) {
  const Rules rules = {.tokens_per_minute = 1000};
  Result<Reservation> first = Reserve({Key("k", rules)}, {.tokens = 800});
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(view_.tokens->remaining, 200);
  const Status refused = Reserve({Key("k", rules)}, {.tokens = 300}).status();
  EXPECT_EQ(refused.retry_after(), seconds(6)) << "100 tokens at 1000 a minute";
  EXPECT_EQ(view_.refused->remaining, 200);
  first->Settle(100);
  EXPECT_FALSE(*first);
  Result<Reservation> second = Reserve({Key("k", rules)}, {.tokens = 300});
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(view_.tokens->remaining, 600);
  second->Settle(1500);  // 1200 more than reserved: a debt of 600
  EXPECT_EQ(Reserve({Key("k", rules)}, {.tokens = 1}).status().retry_after(), milliseconds(36'060));
  EXPECT_EQ(view_.tokens->remaining, 0);
}

TEST_F(LimiterTest, WhatIsServedExceedsTheTokenLimitByNoMoreThanOneSettlement) {
  constexpr int64_t kLimit = 6000, kMaxOverrun = 500;
  const Rules rules = {.tokens_per_minute = kLimit};
  Random random(5);
  struct Running {
    Reservation reservation;
    TimePoint ends;
    int64_t used;
  };
  std::vector<Running> running;
  const TimePoint start = clock_.Now();
  int64_t served = 0;
  for (int i = 0; i < 20'000; ++i) {
    clock_.Advance(milliseconds(random.Between(0, 500)));
    const int64_t estimate = random.Between(1, 1500);
    Result<Reservation> reservation = Reserve({Key("k", rules)}, {.tokens = estimate});
    if (reservation.ok()) {
      // At most one request in flight uses more than it reserved.
      const bool overrun = running.empty() && random.Chance(0.3);
      running.push_back(
          {*std::move(reservation), clock_.Now() + milliseconds(random.Between(0, 20'000)),
           overrun ? estimate + random.Between(1, kMaxOverrun) : random.Between(0, estimate)});
    }
    for (size_t r = 0; r < running.size();) {
      if (running[r].ends > clock_.Now()) {
        ++r;
        continue;
      }
      served += running[r].used;
      running[r].reservation.Settle(running[r].used);
      running[r] = std::move(running.back());
      running.pop_back();
    }
    const double promise = kLimit + kLimit * ToSeconds(clock_.Now() - start) / 60;
    ASSERT_LE(static_cast<double>(served), promise + kMaxOverrun);
  }
  // The limit is also used: the bound does not hold just because all is refused.
  EXPECT_GT(static_cast<double>(served), 0.7 * kLimit * ToSeconds(clock_.Now() - start) / 60);
}

TEST_F(LimiterTest, ConcurrencyIsHeldUntilTheEndAndGivenBackOnEveryWayOut) {
  const std::vector<Subject> subjects = {Tenant("t", {.concurrency = 2})};
  std::vector<Reservation> held;
  for (int i = 0; i < 2; ++i) held.push_back(*Reserve(subjects));
  const Status refused = Reserve(subjects).status();
  EXPECT_EQ(refused.reason(), "rate_limit_exceeded");
  EXPECT_EQ(TypeOf(view_.refused->limit), "concurrency");
  EXPECT_EQ(refused.retry_after(), seconds(1));
  held[0].Settle(5);
  EXPECT_TRUE(Reserve(subjects).ok()) << "settled";
  held[1] = Reservation();
  EXPECT_EQ(Passing(subjects, 5), 5) << "dropped";
  Reservation moved = *Reserve(subjects);
  Reservation again = std::move(moved);
  EXPECT_FALSE(moved);  // NOLINT: what is left of it
  again = Reservation();
  held.clear();
  EXPECT_EQ(limiter_->DropIdle(), 1u);
}

TEST_F(LimiterTest, QueuedTokensAreGivenBackWhenTheRequestHasItsTurn) {
  const std::vector<Subject> subjects = {Tenant("t", {.queued_tokens = 1000})};
  const Estimate estimate = {.tokens = 900, .queued_tokens = 700};
  Result<Reservation> first = Reserve(subjects, estimate);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(Reserve(subjects, estimate).status().reason(), "rate_limit_exceeded");
  EXPECT_EQ(view_.refused->limit, LimitKind::kQueuedTokens);
  EXPECT_EQ(view_.refused->remaining, 300);
  first->LeaveQueue();
  first->LeaveQueue();
  Result<Reservation> second = Reserve(subjects, estimate);
  EXPECT_TRUE(second.ok());
  first->Settle(0);
  EXPECT_EQ(Reserve(subjects, estimate).status().reason(), "rate_limit_exceeded");
  EXPECT_EQ(Reserve(subjects, {.queued_tokens = 1001}).status().reason(), "request_exceeds_limit");
}

TEST_F(LimiterTest, ALookShowsWhatIsLeftAndTakesNothing) {
  const Subject key = Key("k", {.requests_per_minute = 10,
                                .tokens_per_minute = 100,
                                .concurrency = 2,
                                .queued_tokens = 50,
                                .tokens_per_day = 1000});
  const auto left = [&](LimitKind kind) -> int64_t {
    for (const KindView& each : limiter_->Look(key)) {
      if (each.kind == kind) return each.view.remaining;
    }
    return -1;
  };
  EXPECT_EQ(limiter_->Look(key).size(), 5u);
  EXPECT_EQ(left(LimitKind::kRequests), 10);
  EXPECT_EQ(left(LimitKind::kDayTokens), 1000);
  EXPECT_EQ(left(LimitKind::kWindow), -1) << "the rules have no such limit";
  EXPECT_EQ(limiter_->subjects(), 0u) << "a look remembers no subject";
  Result<Reservation> reservation = Reserve({key}, {.tokens = 30, .queued_tokens = 20});
  ASSERT_TRUE(reservation.ok());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(left(LimitKind::kRequests), 9);
  EXPECT_EQ(left(LimitKind::kTokens), 70);
  EXPECT_EQ(left(LimitKind::kConcurrency), 1);
  EXPECT_EQ(left(LimitKind::kQueuedTokens), 30);
  EXPECT_EQ(left(LimitKind::kDayTokens), 970);
  reservation->Settle(10);
  EXPECT_EQ(left(LimitKind::kTokens), 90);
  EXPECT_EQ(left(LimitKind::kConcurrency), 2);
  EXPECT_EQ(view_.tokens->remaining, 70) << "as the headers of the request had it";
}

TEST_F(LimiterTest, ADaysTokensEndAtMidnightByUtc) {
  const std::vector<Subject> subjects = {Key("k", {.tokens_per_day = 1000})};
  unix_s_ = kMidnight + 86'400 - 100;
  EXPECT_EQ(Passing(subjects, 3, 400), 2);
  const Status refused = Reserve(subjects, {.tokens = 400}).status();
  EXPECT_EQ(refused.reason(), "insufficient_quota");
  EXPECT_EQ(refused.retry_after(), seconds(100));
  EXPECT_EQ(view_.tokens->remaining, 200);
  EXPECT_EQ(Passing(subjects, 1, 200), 1);
  EXPECT_EQ(Reserve(subjects, {}).status().reason(), "insufficient_quota");
  Pass(seconds(99));
  EXPECT_EQ(Passing(subjects, 1, 1), 0);
  Pass(seconds(1));
  EXPECT_EQ(Passing(subjects, 1, 1000), 1);
  EXPECT_EQ(Reserve(subjects, {.tokens = 1001}).status().reason(), "request_exceeds_limit");
}

TEST_F(LimiterTest, ARequestCountsToTheDayOnWhichItBegan) {
  const std::vector<Subject> subjects = {Key("k", {.tokens_per_day = 1000})};
  unix_s_ = kMidnight + 86'400 - 1;
  Result<Reservation> late = Reserve(subjects, {.tokens = 900});
  Pass(seconds(2));
  EXPECT_EQ(Passing(subjects, 1, 600), 1);
  late->Settle(0);
  EXPECT_EQ(Reserve(subjects, {}).ok() ? view_.tokens->remaining : -1, 400);
}

TEST_F(LimiterTest, AWallClockThatIsSetBackNeitherEndsNorRefillsADay) {
  const std::vector<Subject> subjects = {Key("k", {.tokens_per_day = 1000})};
  unix_s_ = kMidnight + 10;
  Result<Reservation> first = Reserve(subjects, {.tokens = 700});
  unix_s_ -= 3600;  // yesterday
  EXPECT_EQ(Reserve(subjects, {.tokens = 700}).status().retry_after(), hours(24));
  first->Settle(300);
  EXPECT_EQ(Passing(subjects, 1, 700), 1);
  EXPECT_EQ(Passing(subjects, 1, 1), 0);
  unix_s_ = kMidnight + 86'400;
  EXPECT_EQ(Passing(subjects, 1, 1000), 1);
}

TEST_F(LimiterTest, WhatWasUsedTodayBeforeTheStartCounts) {
  const Subject subject = Key("k", {.tokens_per_day = 1000});
  EXPECT_TRUE(limiter_->AddToDay(subject, 800).ok());
  EXPECT_EQ(Passing({subject}, 2, 150), 1);
}

TEST_F(LimiterTest, OfSeveralLimitsInTheWayTheLongestWaitIsTold) {
  const std::vector<Subject> subjects = {
      Tenant("t", {.requests_per_minute = 1}),
      Key("k", {.tokens_per_minute = 100, .concurrency = 1}),
      Session("s", {.window = {.limit = 1, .period = seconds(30)}})};
  Result<Reservation> first = Reserve(subjects, {.tokens = 100});
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(Reserve(subjects, {.tokens = 50}).status().retry_after(), minutes(1));
  EXPECT_EQ(view_.refused->subject, SubjectKind::kTenant);
  EXPECT_EQ(Reserve(subjects, {.tokens = 101}).status().reason(), "request_exceeds_limit");
  EXPECT_EQ(view_.refused->limit, LimitKind::kTokens);
  EXPECT_EQ(view_.requests->remaining, 0);
  EXPECT_EQ(view_.tokens->limit, 100);
}

TEST_F(LimiterTest, RulesMayChangeWhileRequestsRun) {
  Result<Reservation> first = Reserve({Key("k", {.tokens_per_minute = 1000})}, {.tokens = 600});
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(Reserve({Key("k", {.tokens_per_minute = 2000})}, {}).ok());
  EXPECT_EQ(view_.tokens->remaining, 1400) << "what is taken stays taken";
  first->Settle(100);
  EXPECT_TRUE(Reserve({Key("k", {.tokens_per_minute = 2000})}, {}).ok());
  EXPECT_EQ(view_.tokens->remaining, 1900);
  Result<Reservation> unlimited = Reserve({Key("k", {})}, {.tokens = 1'000'000});
  ASSERT_TRUE(unlimited.ok());
  EXPECT_TRUE(Reserve({Key("k", {.tokens_per_minute = 1000})}, {.tokens = 1000}).ok());
  unlimited->Settle(0);
}

TEST_F(LimiterTest, HundredThousandDroppedReservationsLeaveEveryCounterAtRest) {
  const Rules rules = {.requests_per_minute = 100,
                       .tokens_per_minute = 1000,
                       .concurrency = 10,
                       .queued_tokens = 5000,
                       .tokens_per_day = 10'000,
                       .window = {.limit = 20}};
  const std::vector<Subject> subjects = {Tenant("t", rules), Key("k", rules), Session("s", rules)};
  std::vector<Reservation> open;
  for (int i = 0; i < 100'000; ++i) {
    if (i % 7 == 3) open.clear();
    Result<Reservation> reservation = Reserve(subjects, {.tokens = 100, .queued_tokens = 100});
    ASSERT_TRUE(reservation.ok()) << i << ": " << reservation.status();
    if (i % 3 == 0) reservation->LeaveQueue();
    if (i % 2 == 0) open.push_back(*std::move(reservation));
  }
  open.clear();
  EXPECT_EQ(limiter_->subjects(), 3u);
  EXPECT_EQ(limiter_->DropIdle(), 3u) << "without a nanosecond having passed";
}

// Two limiters see the same calls; one drops its subjects at rest, at random moments.
TEST_F(LimiterTest, ForgettingASubjectAtRestChangesNoDecision) {
  const std::unique_ptr<Limiter> forgetful = Make();
  Random random(11);
  const std::vector<Rules> rules = {
      {.requests_per_minute = 30, .tokens_per_minute = 3000},
      {.concurrency = 2, .queued_tokens = 800, .tokens_per_day = 20'000},
      {.tokens_per_minute = 1000, .window = {.limit = 5, .period = seconds(20)}}};
  std::vector<std::pair<Reservation, Reservation>> open;
  int passed = 0, refused = 0;
  size_t dropped = 0;
  for (int i = 0; i < 100'000; ++i) {
    if (random.Chance(0.3)) clock_.Advance(milliseconds(random.Between(0, 3000)));
    if (random.Chance(0.001)) clock_.Advance(minutes(2));
    if (random.Chance(0.01)) Pass(hours(random.Between(0, 3)));
    if (random.Chance(0.3)) dropped += forgetful->DropIdle();
    const std::string name(1, static_cast<char>('a' + random.Below(4)));
    std::vector<Subject> subjects;
    for (int kind = 0; kind < 3; ++kind) {
      if (random.Chance(0.8))
        subjects.push_back(
            {static_cast<SubjectKind>(kind), name, rules[static_cast<size_t>(kind)]});
    }
    const Estimate estimate = {random.Between(0, 1100), random.Between(0, 500)};
    RateLimitView other;
    Result<Reservation> one = Reserve(subjects, estimate);
    Result<Reservation> two = forgetful->Reserve(subjects, estimate, &other);
    ASSERT_EQ(one.status(), two.status()) << i;
    for (const auto part : {&RateLimitView::requests, &RateLimitView::tokens}) {
      ASSERT_EQ((view_.*part).has_value(), (other.*part).has_value());
      if (!(view_.*part).has_value()) continue;
      ASSERT_EQ((view_.*part)->remaining, (other.*part)->remaining) << i;
      ASSERT_EQ((view_.*part)->reset, (other.*part)->reset) << i;
    }
    (one.ok() ? passed : refused)++;
    if (one.ok()) open.emplace_back(*std::move(one), *std::move(two));
    while (open.size() > 3 || (!open.empty() && random.Chance(0.4))) {
      const size_t which = random.Below(open.size());
      auto& [mine, theirs] = open[which];
      if (random.Chance(0.7)) {
        const int64_t used = random.Between(0, 1500);
        mine.Settle(used);
        theirs.Settle(used);
      }
      open[which] = std::move(open.back());
      open.pop_back();
    }
  }
  EXPECT_GT(passed, 5000);
  EXPECT_GT(refused, 5000);
  EXPECT_GT(dropped, 1000u);
}

TEST_F(LimiterTest, AFullTableForgetsIdleSubjectsAndRefusesNewOnes) {
  limiter_ = Make({.max_subjects = 100, .shards = 1});
  const Rules rules = {.requests_per_minute = 60};
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Passing({Key(std::to_string(i), rules)}, 1), 1);
  const Status refused = Reserve({Key("new", rules)}).status();
  EXPECT_EQ(refused.reason(), "overloaded");
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_EQ(Passing({Key("7", rules)}, 60), 59) << "those that are known are counted on";
  Pass(seconds(1));  // all but that one are at rest
  for (int i = 0; i < 99; ++i) EXPECT_EQ(Passing({Key("new" + std::to_string(i), rules)}, 1), 1);
  EXPECT_EQ(Passing({Key("7", rules)}, 60), 1) << "it was not forgotten";
  EXPECT_EQ(limiter_->subjects(), 100u);
}

TEST_F(LimiterTest, ANameThatIsTooLongIsRefused) {
  EXPECT_EQ(Reserve({Key(std::string(kMaxNameBytes + 1, 'x'), {})}).status().reason(),
            "invalid_value");
  EXPECT_EQ(limiter_->subjects(), 0u);
}

TEST_F(LimiterTest, TheSameNameOfAnotherKindIsAnotherSubject) {
  const Rules rules = {.requests_per_minute = 1};
  EXPECT_EQ(Passing({Key("x", rules)}, 2), 1);
  EXPECT_EQ(Passing({Tenant("x", rules)}, 2), 1);
}

TEST_F(LimiterTest, ListsTheSubjectsNearestToALimit) {
  const std::vector<Subject> used = {Tenant("t", {.requests_per_minute = 10}),
                                     Key("key:a", {.concurrency = 2, .tokens_per_day = 100})};
  Result<Reservation> runs = Reserve(used, {.tokens = 90});
  ASSERT_TRUE(runs.ok());
  ASSERT_TRUE(Reserve({Key("key:none", {})}).ok()) << "without limits: not listed";
  const std::vector<Limiter::Usage> all = limiter_->ListUsage(10);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "key:a");
  EXPECT_EQ(all[0].kind, SubjectKind::kKey);
  EXPECT_NEAR(all[0].used, 0.9, 1e-9);
  ASSERT_EQ(all[0].limits.size(), 2u);
  EXPECT_EQ(all[0].limits[0].kind, LimitKind::kConcurrency);
  EXPECT_EQ(all[0].limits[0].view.remaining, 1);
  EXPECT_EQ(all[0].limits[1].view.remaining, 10);
  EXPECT_EQ(all[1].name, "t");
  EXPECT_NEAR(all[1].used, 0.1, 1e-9);
  EXPECT_EQ(limiter_->ListUsage(1).size(), 1u);
}

}  // namespace
}  // namespace tutti::limits
