#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/policy/pick_batch.h"

namespace tutti::engine {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

BatchShape RandomShape(Random& random, int longest = 256) {
  BatchShape shape;
  for (int64_t n = random.Between(1, 32); n > 0; --n)
    shape.Add(static_cast<int>(random.Between(2, longest)));
  return shape;
}

Duration Truth(const BatchShape& shape, double scale = 1) {
  return Duration(static_cast<int64_t>(scale * (1.5e6 + 18e3 * static_cast<double>(shape.tokens) +
                                                20.0 * static_cast<double>(shape.squares))));
}

TEST(BatchCost, KnowsNothingBeforeTheFirstBatch) {
  const BatchCost cost;
  EXPECT_FALSE(cost.known());
  BatchShape shape;
  shape.Add(100);
  EXPECT_EQ(cost.Estimate(shape), Duration(0));
}

TEST(BatchCost, EstimatesWithinAFewPercentAfterAHundredNoisyBatches) {
  Random random(3);
  BatchCost cost;
  for (int i = 0; i < 100; ++i) {
    const BatchShape shape = RandomShape(random);
    cost.Observe(shape, Truth(shape, 0.95 + 0.1 * random.Uniform()));
  }
  for (int i = 0; i < 200; ++i) {
    const BatchShape shape = RandomShape(random);
    EXPECT_NEAR(ToMillis(cost.Estimate(shape)) / ToMillis(Truth(shape)), 1.0, 0.06);
  }
}

TEST(BatchCost, OneBatchIsEnoughForABatchOfItsKind) {
  BatchCost cost;
  BatchShape shape;
  for (int i = 0; i < 8; ++i) shape.Add(16);
  cost.Observe(shape, milliseconds(4));
  EXPECT_NEAR(ToMillis(cost.Estimate(shape)), 4, 0.1);
}

// Batches that are all alike cannot separate the coefficients. The estimate for such a batch is
// still right, and no coefficient is negative.
TEST(BatchCost, StaysSaneWhereAllBatchesAreAlike) {
  BatchCost cost;
  BatchShape shape, twice;
  for (int i = 0; i < 16; ++i) shape.Add(16);
  for (int i = 0; i < 32; ++i) twice.Add(16);
  for (int i = 0; i < 1000; ++i) cost.Observe(shape, milliseconds(6));
  EXPECT_NEAR(ToMillis(cost.Estimate(shape)), 6, 0.1);
  EXPECT_GE(cost.Estimate(twice), cost.Estimate(shape));
  EXPECT_LE(cost.Estimate(twice), milliseconds(13));
  EXPECT_GE(cost.fixed(), Duration(0));
}

TEST(BatchCost, OneSlowBatchHardlyCountsAndAnotherPaceIsLearned) {
  Random random(5);
  BatchCost cost;
  for (int i = 0; i < 100; ++i) {
    const BatchShape shape = RandomShape(random);
    cost.Observe(shape, Truth(shape));
  }
  const BatchShape probe = RandomShape(random);
  cost.Observe(probe, std::chrono::seconds(2));  // the host was busy
  EXPECT_LT(ToMillis(cost.Estimate(probe)), 1.1 * ToMillis(Truth(probe)));
  for (int i = 0; i < 400; ++i) {
    const BatchShape shape = RandomShape(random);
    cost.Observe(shape, Truth(shape, 3));
  }
  EXPECT_NEAR(ToMillis(cost.Estimate(probe)) / ToMillis(Truth(probe, 3)), 1.0, 0.1);
}

TEST(BatchCost, NoTermIsEverNegativeNorAnyEstimateWild) {
  Random random(11);
  for (int run = 0; run < 200; ++run) {
    BatchCost cost;
    for (int i = 0; i < 50; ++i) {
      const BatchShape shape = RandomShape(random, 1 + static_cast<int>(random.Below(512)) + 2);
      cost.Observe(shape, microseconds(random.Between(1, 100'000)));  // no law at all
      BatchShape larger = shape;
      larger.Add(100);
      ASSERT_GE(cost.Estimate(larger), cost.Estimate(shape));
      ASSERT_LT(cost.Estimate(shape), std::chrono::seconds(100));
      ASSERT_GE(cost.fixed(), Duration(0));
    }
  }
}

}  // namespace
}  // namespace tutti::engine
