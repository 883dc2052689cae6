#include "engine/policy/pick_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace tutti::engine {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

std::vector<Candidate> Line(std::initializer_list<int> lengths) {
  std::vector<Candidate> line;
  for (const int length : lengths) line.push_back({length, 0, false});
  return line;
}

std::vector<int> Picked(const std::vector<Candidate>& line) {
  std::vector<int> lengths;
  for (const Candidate& c : line) {
    if (c.picked) lengths.push_back(c.tokens);
  }
  return lengths;
}

// 1 ms and 10 us a token, exactly.
BatchCost Linear() {
  BatchCost cost;
  for (int round = 0; round < 200; ++round) {
    for (const int tokens : {1, 10, 100, 1000}) {
      BatchShape shape;
      for (int i = 0; i < 4; ++i) shape.Add(tokens / 4 + 1);
      cost.Observe(shape, milliseconds(1) + microseconds(10) * shape.tokens);
    }
  }
  return cost;
}

struct BatchRig {
  BatchCost cost;
  PickInputs in{{.items = 4, .tokens = 100}, 3, 0, &cost};
  std::vector<Candidate> singles, bulk;
  std::vector<int> scratch;
  PickedBatch Pick() { return PickBatch(in, singles, bulk, scratch); }
};

TEST(PickBatch, TakesTheFirstInLineAndThoseOfLikeLength) {
  BatchRig rig;
  rig.singles = Line({20, 90, 5, 21, 50, 18, 22});
  const PickedBatch batch = rig.Pick();
  EXPECT_THAT(Picked(rig.singles), ::testing::ElementsAre(20, 21, 18, 22));
  EXPECT_EQ(batch.shape.items, 4);
  EXPECT_EQ(batch.shape.tokens, 81);
  EXPECT_TRUE(batch.full);
  EXPECT_FALSE(batch.aged);
  // Items that a later item overtook count it; the last one in line was not overtaken.
  EXPECT_EQ(rig.singles[1].passed, 1);
  EXPECT_EQ(rig.singles[2].passed, 1);
  EXPECT_EQ(rig.singles[4].passed, 1);
}

TEST(PickBatch, IsNotFullWhereAllThatWaitsFits) {
  BatchRig rig;
  rig.singles = Line({20, 30});
  rig.bulk = Line({40});
  EXPECT_FALSE(rig.Pick().full);
}

TEST(PickBatch, KeepsToItsLimitsInItemsTokensAndTime) {
  BatchRig rig;
  rig.bulk = Line({30, 30, 30, 30, 30});
  EXPECT_EQ(rig.Pick().shape.tokens, 90);
  rig.bulk = Line({1, 1, 1, 1, 1});
  EXPECT_EQ(rig.Pick().shape.items, 4);
  rig.cost = Linear();
  rig.in.limits.time = microseconds(1450);
  rig.bulk = Line({20, 20, 20, 20});
  EXPECT_EQ(rig.Pick().shape.items, 2);  // 1.4 ms
}

TEST(PickBatch, OneItemGoesWhateverItTakes) {
  BatchRig rig;
  rig.cost = Linear();
  rig.in.limits.time = microseconds(1);
  rig.bulk = Line({100, 1});
  EXPECT_EQ(rig.Pick().shape.items, 1);
  EXPECT_TRUE(rig.bulk[0].picked);
}

TEST(PickBatch, AnItemThatWasPassedOverOftenEnoughIsNotPassedOverAgain) {
  BatchRig rig;
  rig.singles = Line({20, 90, 20, 20, 20});
  rig.singles[1].passed = 3;
  const PickedBatch batch = rig.Pick();
  // The item of 90 does not fit next to the first, but no later item may overtake it.
  EXPECT_THAT(Picked(rig.singles), ::testing::ElementsAre(20));
  EXPECT_EQ(rig.singles[1].passed, 3);
  EXPECT_TRUE(batch.full);
  rig.singles.erase(rig.singles.begin());
  const PickedBatch next = rig.Pick();
  EXPECT_TRUE(rig.singles[0].picked);
  EXPECT_TRUE(next.aged);
}

TEST(PickBatch, SinglesGoAheadAndBulkItemsHaveTheirClaim) {
  BatchRig rig;
  rig.in.limits = {.items = 8, .tokens = 1000};
  rig.singles = Line({10, 10, 10, 10, 10, 10, 10, 10, 10});
  rig.bulk = Line({10, 10, 10, 10, 10, 10, 10, 10, 10});
  EXPECT_EQ(rig.Pick().bulk_part, 0);
  rig.singles = Line({10, 10, 10, 10, 10, 10, 10, 10, 10});
  rig.in.bulk_claim = 0.25;
  EXPECT_DOUBLE_EQ(rig.Pick().bulk_part, 0.25);
  EXPECT_EQ(Picked(rig.singles).size(), 6u);
  EXPECT_EQ(Picked(rig.bulk).size(), 2u);
}

TEST(PickBatch, WhatALineDoesNotUseTheOtherTakes) {
  BatchRig rig;
  rig.in.limits = {.items = 8, .tokens = 1000};
  rig.in.bulk_claim = 0.5;
  rig.singles = Line({10, 10, 10, 10, 10, 10, 10, 10, 10});
  rig.bulk = Line({10});
  rig.Pick();
  EXPECT_EQ(Picked(rig.singles).size(), 7u);
  rig.singles = Line({10, 10});
  rig.bulk = Line({10, 10, 10, 10, 10, 10, 10, 10, 10});
  rig.Pick();
  EXPECT_EQ(Picked(rig.singles).size(), 2u);
  EXPECT_EQ(Picked(rig.bulk).size(), 6u);
}

TEST(PickBatch, ALongBulkItemGoesOnceItsPartIsSaved) {
  BatchRig rig;
  rig.singles = Line({30, 30, 30, 30});
  rig.bulk = Line({90});
  rig.in.bulk_claim = 0.75;
  rig.Pick();
  EXPECT_FALSE(rig.bulk[0].picked);
  rig.singles = Line({30, 30, 30, 30});
  rig.in.bulk_claim = 0.9;
  rig.Pick();
  EXPECT_TRUE(rig.bulk[0].picked);
}

// For random lines in random order: a batch keeps the limits and is never empty, no item is passed
// over too often, and the first item of a line without claims always goes.
TEST(PickBatch, HoldsItsPromisesOnRandomLines) {
  Random random(7);
  BatchRig rig;
  const BatchCost linear = Linear();
  for (int round = 0; round < 20'000; ++round) {
    rig.cost = random.Chance(0.5) ? linear : BatchCost();
    rig.in.limits.items = static_cast<int>(random.Between(1, 40));
    rig.in.limits.tokens = static_cast<int>(random.Between(200, 1024));
    rig.in.limits.time =
        random.Chance(0.5) ? Duration::max() : Duration(microseconds(random.Between(1, 10'000)));
    rig.in.max_passed = static_cast<int>(random.Between(0, 3));
    rig.in.bulk_claim = random.Uniform();
    for (auto* line : {&rig.singles, &rig.bulk}) {
      line->clear();
      for (int64_t n = random.Between(0, 60); n > 0; --n) {
        line->push_back({static_cast<int>(random.Between(1, 200)),
                         static_cast<int>(random.Between(0, rig.in.max_passed)), false});
      }
    }
    if (rig.singles.empty() && rig.bulk.empty()) continue;
    const PickedBatch batch = rig.Pick();
    BatchShape sum;
    for (const auto* line : {&rig.singles, &rig.bulk}) {
      for (const Candidate& c : *line) {
        if (c.picked) sum.Add(c.tokens);
        ASSERT_LE(c.passed, rig.in.max_passed);
      }
    }
    ASSERT_GT(sum.items, 0);
    ASSERT_EQ(sum.items, batch.shape.items);
    ASSERT_EQ(sum.squares, batch.shape.squares);
    ASSERT_LE(sum.items, rig.in.limits.items);
    ASSERT_LE(sum.tokens, rig.in.limits.tokens);
    if (rig.in.limits.time != Duration::max() && sum.items > 1) {
      ASSERT_LE(rig.cost.Estimate(sum), rig.in.limits.time);
    }
    if (rig.bulk.empty() || rig.singles.empty()) {
      ASSERT_TRUE((rig.bulk.empty() ? rig.singles : rig.bulk)[0].picked);
    }
    const auto left = static_cast<size_t>(sum.items) != rig.singles.size() + rig.bulk.size();
    ASSERT_EQ(batch.full, left);
  }
}

}  // namespace
}  // namespace tutti::engine
