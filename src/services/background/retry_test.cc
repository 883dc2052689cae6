#include "services/background/retry.h"

#include <gtest/gtest.h>

#include <chrono>

namespace tutti::background {
namespace {

using std::chrono::seconds;
using Action = RetryDecision::Action;

TEST(RetryPolicy, CountsAttemptsOfFailuresOnly) {
  RetryPolicy policy({}, 0);
  for (int64_t attempt = 1; attempt < 3; ++attempt) {
    const RetryDecision again = policy.Decide(Failure::kFailed, attempt, 3);
    EXPECT_EQ(again.action, Action::kRetry) << attempt;
    EXPECT_TRUE(again.again() && again.counted());
    EXPECT_EQ(again.wait, Duration(0)) << "no backoff was asked for";
  }
  EXPECT_EQ(policy.Decide(Failure::kFailed, 3, 3).action, Action::kGiveUp);
  EXPECT_EQ(policy.Decide(Failure::kPermanent, 1, 3).action, Action::kFail);
  EXPECT_FALSE(policy.Decide(Failure::kPermanent, 1, 3).again());
  for (const Failure failure : {Failure::kRefused, Failure::kStopping}) {
    const RetryDecision uncounted = policy.Decide(failure, 3, 3);
    EXPECT_TRUE(uncounted.again() && !uncounted.counted());
  }
}

TEST(RetryPolicy, BackoffGrowsToItsLastStepWithinTheJitter) {
  RetryPolicy policy({seconds(10), seconds(100)}, 0.25);
  const auto wait = [&](Failure failure, int64_t attempt) {
    return ToSeconds(policy.Decide(failure, attempt, 100).wait);
  };
  for (int i = 0; i < 100; ++i) {
    EXPECT_NEAR(wait(Failure::kFailed, 1), 10, 2.5);
    EXPECT_NEAR(wait(Failure::kThrottled, 1), 100, 25) << "one step further";
    for (const int64_t attempt : {2, 3, 99}) EXPECT_NEAR(wait(Failure::kFailed, attempt), 100, 25);
  }
}

TEST(RetryPolicy, WaitsAsLongAsThePeerAsks) {
  RetryPolicy policy({seconds(10)}, 0);
  EXPECT_EQ(policy.Decide(Failure::kFailed, 1, 2, seconds(60)).wait, seconds(60));
  EXPECT_EQ(policy.Decide(Failure::kFailed, 1, 2, seconds(1)).wait, seconds(10));
  EXPECT_EQ(policy.Decide(Failure::kRefused, 1, 2, seconds(60)).wait, seconds(60));
  EXPECT_EQ(policy.Decide(Failure::kRefused, 1, 2).wait, seconds(1));
}

TEST(RetryPolicy, AFullDiskIsAskedLessOftenThanABusyOne) {
  EXPECT_LT(StoreRetryDelay(Unavailable("overloaded", "")),
            StoreRetryDelay(ResourceExhausted("storage_full", "")));
}

}  // namespace
}  // namespace tutti::background
