#include <gmock/gmock.h>

#include <numeric>

#include "bench/report.h"

namespace tutti::bench {
namespace {

TEST(StatisticsTest, PercentilesInterpolateBetweenClosestRanks) {
  std::vector<double> samples(101);
  std::iota(samples.rbegin(), samples.rend(), 0.0);  // 100 .. 0: order must not matter
  EXPECT_DOUBLE_EQ(Percentile(samples, 0), 0);
  EXPECT_DOUBLE_EQ(Percentile(samples, 50), 50);
  EXPECT_DOUBLE_EQ(Percentile(samples, 99), 99);
  EXPECT_DOUBLE_EQ(Percentile(samples, 99.5), 99.5);
  EXPECT_DOUBLE_EQ(Percentile(samples, 100), 100);
  EXPECT_DOUBLE_EQ(Percentile(std::vector<double>{4, 2}, 50), 3);
  EXPECT_DOUBLE_EQ(Percentile(std::vector<double>{7}, 99), 7);
  EXPECT_DOUBLE_EQ(Percentile({}, 50), 0);
}

TEST(StatisticsTest, TheMedianOfAnOddNumberOfRepeatsIsOneOfThem) {
  const Spread spread = SpreadOf(std::vector<double>{5, 1, 100});
  EXPECT_EQ(spread.median, 5);
  EXPECT_EQ(spread.min, 1);
  EXPECT_EQ(spread.max, 100);
}

TEST(StatisticsTest, StableMeansTheLastThreeWindowsAgreeWithinATenth) {
  EXPECT_FALSE(IsStable(std::vector<double>{100, 100}));
  EXPECT_TRUE(IsStable(std::vector<double>{100, 109, 105}));
  EXPECT_FALSE(IsStable(std::vector<double>{100, 111, 105}));
  EXPECT_TRUE(
      IsStable(std::vector<double>{10, 200, 200, 190, 201}));  // warm-up windows are forgotten
  EXPECT_FALSE(IsStable(std::vector<double>{0, 0, 0}));        // nothing happened: nothing is known
}

TEST(StatisticsTest, WindowsHoldEquallyManyCompletions) {
  // Ten a second for a second, then five a second for two.
  std::vector<double> ends;
  for (int i = 1; i <= 10; ++i) ends.push_back(0.1 * i);
  for (int i = 1; i <= 10; ++i) ends.push_back(1 + 0.2 * i);
  EXPECT_THAT(WindowRates(ends, 2),
              testing::ElementsAre(testing::DoubleNear(10, 1e-9), testing::DoubleNear(5, 1e-9)));
  EXPECT_THAT(WindowRates(std::vector<double>{1, 2}, 3), testing::IsEmpty());
}

TEST(StatisticsTest, AGateAsksForTheStatedRatioUnlessTheMachineAllowsTooLittle) {
  RatioGate roomy{.stated = 4.0, .allowed = 6.0, .measured = 4.1};
  EXPECT_DOUBLE_EQ(roomy.required(), 4.0);
  EXPECT_FALSE(roomy.capped());
  EXPECT_TRUE(roomy.met());
  roomy.measured = 3.9;
  EXPECT_FALSE(roomy.met());

  RatioGate capped{.stated = 4.0, .allowed = 4.0, .measured = 3.41};
  EXPECT_DOUBLE_EQ(capped.required(), 3.4);
  EXPECT_TRUE(capped.capped());
  EXPECT_TRUE(capped.met());
  capped.measured = 3.39;
  EXPECT_FALSE(capped.met());
}

}  // namespace
}  // namespace tutti::bench
