#include <gtest/gtest.h>

#include <chrono>

#include "services/limits/rules.h"

namespace tutti::limits {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST(ResetText, ReadsAsClientsExpectAndIsNeverTooEarly) {
  EXPECT_EQ(ResetText(Duration(0)), "0s");
  EXPECT_EQ(ResetText(Duration(-5)), "0s");
  EXPECT_EQ(ResetText(nanoseconds(1)), "1ms");
  EXPECT_EQ(ResetText(milliseconds(17)), "17ms");
  EXPECT_EQ(ResetText(milliseconds(999) + nanoseconds(1)), "1s");
  EXPECT_EQ(ResetText(milliseconds(7660)), "7.66s");
  EXPECT_EQ(ResetText(milliseconds(1001)), "1.001s");
  EXPECT_EQ(ResetText(seconds(30)), "30s");
  EXPECT_EQ(ResetText(minutes(6)), "6m0s");
  EXPECT_EQ(ResetText(minutes(6) + nanoseconds(1)), "6m1s");
  EXPECT_EQ(ResetText(seconds(3600 + 120 + 3)), "1h2m3s");
  EXPECT_EQ(ResetText(Duration::max()), "8760h0m0s");
}

TEST(RateLimitView, TellsTheTightestOfSeveralLimits) {
  RateLimitView view;
  view.LowerRequests({100, 40, seconds(10)});
  view.LowerRequests({1000, 7, seconds(1)});
  view.LowerRequests({1000, 7, seconds(3)});
  view.LowerRequests({50, 8, seconds(60)});
  ASSERT_TRUE(view.requests.has_value());
  EXPECT_EQ(view.requests->limit, 1000);
  EXPECT_EQ(view.requests->remaining, 7);
  EXPECT_EQ(view.requests->reset, seconds(3));
  EXPECT_FALSE(view.tokens.has_value());
}

TEST(Refusal, BecomesAStatusWithItsNumbersAndWhenToTryAgain) {
  Refusal refusal = {.subject = SubjectKind::kKey,
                     .limit = LimitKind::kTokens,
                     .most = 1000,
                     .asked = 300,
                     .remaining = 120,
                     .reset = seconds(52),
                     .retry_after = milliseconds(10'800) + nanoseconds(1)};
  const Status limit = ToStatus(refusal);
  EXPECT_EQ(limit.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(limit.reason(), "rate_limit_exceeded");
  EXPECT_EQ(
      limit.message(),
      "the limit of 1000 tokens a minute of this key or user is reached: 120 left, 300 asked for");
  EXPECT_EQ(limit.retry_after(), milliseconds(10'801)) << "never too early";
  EXPECT_EQ(limit.excess(), (Status::Excess{300, 120}));
  refusal.retry_after = Duration::max();
  EXPECT_EQ(ToStatus(refusal).reason(), "request_exceeds_limit");
  EXPECT_FALSE(ToStatus(refusal).retry_after().has_value());
  refusal.limit = LimitKind::kDayTokens;
  refusal.retry_after = seconds(5);
  EXPECT_EQ(ToStatus(refusal).reason(), "insufficient_quota");
  EXPECT_EQ(ToStatus(refusal).retry_after(), seconds(5));
}

TEST(LimitKind, HasANameAndAType) {
  EXPECT_EQ(NameOf(LimitKind::kDayTokens), "tokens_per_day");
  EXPECT_EQ(TypeOf(LimitKind::kWindow), "requests");
  EXPECT_EQ(TypeOf(LimitKind::kTokens), "tokens");
  EXPECT_EQ(TypeOf(LimitKind::kConcurrency), "concurrency");
  EXPECT_EQ(NameOf(SubjectKind::kAddress), "address");
}

}  // namespace
}  // namespace tutti::limits
