#include "bench/workload.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

namespace tutti::bench {
namespace {

TEST(WorkloadTest, TheSameSeedGivesTheSameArrivalsAndAnotherOneOthers) {
  const auto first = ArrivalTimes(Arrivals::kPoisson, 20, 500, 7);
  EXPECT_EQ(first, ArrivalTimes(Arrivals::kPoisson, 20, 500, 7));
  EXPECT_NE(first, ArrivalTimes(Arrivals::kPoisson, 20, 500, 8));
}

TEST(WorkloadTest, EveryKindOfArrivalKeepsTheAskedRateWithinOnePercent) {
  for (const Arrivals kind : {Arrivals::kFixed, Arrivals::kPoisson, Arrivals::kBurst}) {
    const auto due = ArrivalTimes(kind, 40, 2000, 3);
    ASSERT_EQ(due.size(), 2000u);
    EXPECT_TRUE(std::is_sorted(due.begin(), due.end()));
    EXPECT_NEAR(2000 / due.back(), 40, 0.4);
  }
}

TEST(WorkloadTest, PoissonGapsAreExponential) {
  const int count = 20000;
  const auto due = ArrivalTimes(Arrivals::kPoisson, 100, count, 1);
  double mean = 0, square = 0;
  for (size_t i = 1; i < due.size(); ++i) {
    const double gap = due[i] - due[i - 1];
    mean += gap / (count - 1);
    square += gap * gap / (count - 1);
  }
  EXPECT_NEAR(mean, 0.01, 0.0002);
  EXPECT_NEAR(square / (mean * mean), 2.0, 0.1);  // E[x^2] = 2 E[x]^2 for an exponential
}

TEST(WorkloadTest, BurstsComeTogether) {
  const auto due = ArrivalTimes(Arrivals::kBurst, 16, 24, 1);
  for (int i = 0; i < 24; ++i)
    EXPECT_DOUBLE_EQ(due[static_cast<size_t>(i)], 0.5 * (i / kBurstSize)) << i;
}

TEST(WorkloadTest, PromptsDependOnSeedAndIndexAndAreAllDifferent) {
  std::set<std::string> seen;
  for (int i = 0; i < 200; ++i) {
    const std::string text = PromptText(Workload::kRandom, 32, 5, i);
    EXPECT_EQ(text, PromptText(Workload::kRandom, 32, 5, i));
    EXPECT_EQ(std::count(text.begin(), text.end(), ' '), 31);
    seen.insert(text);
  }
  EXPECT_EQ(seen.size(), 200u);
}

TEST(WorkloadTest, NoTwoLevelsOfARunHaveAPromptInCommon) {
  std::set<std::string> seen;
  for (int level = 0; level < 6; ++level) {
    EXPECT_EQ(LevelSeed(5, level), LevelSeed(5, level));
    for (int i = 0; i < 50; ++i)
      seen.insert(PromptText(Workload::kRandom, 16, LevelSeed(5, level), i));
  }
  EXPECT_EQ(seen.size(), 300u);
}

TEST(WorkloadTest, SharedPromptsBeginAlikeAndEndDifferently) {
  const std::string a = PromptText(Workload::kShared, 40, 5, 0),
                    b = PromptText(Workload::kShared, 40, 5, 1);
  size_t words = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i) words += a[i] == ' ';
  EXPECT_GE(words, 30u);
  EXPECT_NE(a, b);
}

TEST(WorkloadTest, ChatPromptsStayBetweenAQuarterAndFourTimesTheLengthAskedFor) {
  long shortest = 1 << 30, longest = 0;
  for (int i = 0; i < 500; ++i) {
    const std::string text = PromptText(Workload::kChat, 100, 5, i);
    const long words = std::count(text.begin(), text.end(), ' ') + 1;
    shortest = std::min(shortest, words);
    longest = std::max(longest, words);
  }
  EXPECT_GE(shortest, 25);
  EXPECT_LE(shortest, 30);
  EXPECT_LE(longest, 400);
  EXPECT_GE(longest, 350);
}

TEST(WorkloadTest, UnknownNamesAreRefusedWithTheKnownOnes) {
  EXPECT_THAT(ArrivalsFromName("often").status().message(),
              testing::HasSubstr("fixed, poisson, burst"));
  EXPECT_THAT(WorkloadFromName("").status().message(), testing::HasSubstr("random, chat, shared"));
}

}  // namespace
}  // namespace tutti::bench
