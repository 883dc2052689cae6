#include "kernels/attention_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "base/random.h"

namespace tutti::kernels {
namespace {

const AttentionShape kShape = {9, 3, 64, 0.125f, RopeMode::kNone, 64};

struct Batch {
  std::vector<std::vector<int32_t>> tables;
  std::vector<AttentionSequence> sequences;
  int32_t rows = 0;
};

// Sequences of random lengths; about half of them start with the blocks of an earlier one.
Batch RandomBatch(Random& random) {
  Batch batch;
  const int32_t count = static_cast<int32_t>(random.Between(1, 20));
  int32_t next_block = 0;
  for (int32_t i = 0; i < count; ++i) {
    const int32_t start = static_cast<int32_t>(random.Below(1500));
    const int32_t rows =
        static_cast<int32_t>(random.Chance(0.7) ? random.Between(1, 8) : random.Between(9, 300));
    std::vector<int32_t> table;
    if (!batch.tables.empty() && random.Chance(0.5)) {
      const std::vector<int32_t>& donor = batch.tables[random.Below(batch.tables.size())];
      const size_t shared = std::min(random.Below(40), static_cast<uint64_t>(start / kBlockTokens));
      table.assign(donor.begin(),
                   donor.begin() + static_cast<ptrdiff_t>(std::min(shared, donor.size())));
    }
    while (static_cast<int32_t>(table.size()) * kBlockTokens < start + rows) {
      table.push_back(next_block++);
    }
    batch.tables.push_back(std::move(table));
    batch.sequences.push_back({nullptr, start, rows, batch.rows});
    batch.rows += rows;
  }
  for (size_t i = 0; i < batch.tables.size(); ++i) {
    batch.sequences[i].blocks = batch.tables[i].data();
  }
  return batch;
}

TEST(AttentionPlanTest, EveryRowMeetsEveryChunkItSeesExactlyOnceOnEveryHead) {
  Random random(1);
  AttentionPlan plan;
  for (int round = 0; round < 200; ++round) {
    const Batch batch = RandomBatch(random);
    const int workers = static_cast<int>(random.Between(1, 9));
    plan.Build(kShape, batch.sequences, workers, random.Chance(0.8));
    const AttentionWork work = plan.work();
    std::map<std::tuple<int32_t, int32_t, int32_t>, int> seen;  // (row, kv head, chunk)
    std::map<int32_t, int> contributions;                       // by group
    for (int32_t i = 0; i < plan.items(); ++i) {
      const AttentionItem& item = work.items[i];
      int32_t item_rows = 0;
      for (int32_t s = item.segment_begin; s < item.segment_begin + item.segment_count; ++s) {
        const AttentionSegment& segment = work.segments[s];
        item_rows += segment.rows * 3;
        if (segment.group >= 0) ++contributions[segment.group + item.kv_head];
        if (item.segment_count > 1) {
          ASSERT_GE(segment.group, 0);
          ASSERT_LE(item.chunk_end * kChunkTokens, segment.start + 1) << "a shared chunk is masked";
          ASSERT_TRUE(std::equal(
              segment.blocks + item.chunk_begin * kChunkBlocks,
              segment.blocks + item.chunk_end * kChunkBlocks,
              work.segments[item.segment_begin].blocks + item.chunk_begin * kChunkBlocks));
        }
        for (int32_t r = 0; r < segment.rows; ++r) {
          for (int32_t c = item.chunk_begin; c < item.chunk_end; ++c) {
            if (c * kChunkTokens <= segment.start + r) {
              ++seen[{segment.first_row + r, item.kv_head, c}];
            }
          }
        }
      }
      ASSERT_LE(item_rows, kMaxItemRows);
      if (i > 0) {
        ASSERT_LE(item.cost, work.items[i - 1].cost) << "longest first";
      }
    }
    size_t expected = 0;
    for (const AttentionSequence& sequence : batch.sequences) {
      for (int32_t r = 0; r < sequence.rows; ++r) {
        expected += 3 * static_cast<size_t>((sequence.start + r) / kChunkTokens + 1);
      }
    }
    ASSERT_EQ(seen.size(), expected) << "round " << round;
    for (const auto& [key, times] : seen) ASSERT_EQ(times, 1);
    for (const auto& [group, count] : contributions) {
      ASSERT_EQ(work.groups[group].items, count);
      ASSERT_EQ(work.groups[group].unfinished, count);
    }
  }
}

TEST(AttentionPlanTest, PlacesFollowTheBlockTables) {
  Random random(2);
  AttentionPlan plan;
  const Batch batch = RandomBatch(random);
  plan.Build(kShape, batch.sequences, 2);
  ASSERT_EQ(plan.places().size(), static_cast<size_t>(batch.rows));
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    const AttentionSequence& sequence = batch.sequences[i];
    for (int32_t r = 0; r < sequence.rows; ++r) {
      const RowPlace place = plan.places()[static_cast<size_t>(sequence.first_row + r)];
      EXPECT_EQ(place.position, sequence.start + r);
      EXPECT_EQ(place.block, batch.tables[i][static_cast<size_t>(place.position / kBlockTokens)]);
    }
  }
}

TEST(AttentionPlanTest, TheSameBatchGivesTheSamePlan) {
  Random random(3);
  AttentionPlan first;
  AttentionPlan second;
  for (int round = 0; round < 20; ++round) {
    const Batch batch = RandomBatch(random);
    first.Build(kShape, batch.sequences, 4);
    const Batch other = RandomBatch(random);
    second.Build(kShape, other.sequences, 3);  // storage that held another plan
    second.Build(kShape, batch.sequences, 4);
    ASSERT_EQ(first.items(), second.items());
    for (int32_t i = 0; i < first.items(); ++i) {
      const AttentionItem& a = first.work().items[i];
      const AttentionItem& b = second.work().items[i];
      ASSERT_EQ(std::tie(a.kv_head, a.chunk_begin, a.chunk_end, a.segment_begin, a.segment_count),
                std::tie(b.kv_head, b.chunk_begin, b.chunk_end, b.segment_begin, b.segment_count));
    }
    ASSERT_EQ(first.partial_floats(), second.partial_floats());
  }
}

// The maximum load per worker over the mean load if the plan's items are taken longest first.
double Imbalance(AttentionPlan& plan, int workers) {
  std::vector<double> load(static_cast<size_t>(workers));
  for (int32_t i = 0; i < plan.items(); ++i) {
    *std::min_element(load.begin(), load.end()) += static_cast<double>(plan.work().items[i].cost);
  }
  return *std::max_element(load.begin(), load.end()) * workers / plan.cost();
}

TEST(AttentionPlanTest, OneLongDecodeAndOneShortPromptStillKeepTwoWorkersBusy) {
  std::vector<int32_t> blocks(400);
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<int32_t>(i);
  AttentionPlan plan;
  const AttentionSequence decode = {blocks.data(), 2047, 1, 0};
  plan.Build(kShape, {&decode, 1}, 2);
  EXPECT_LE(Imbalance(plan, 2), 1.1);
  const AttentionSequence prompt = {blocks.data(), 0, 64, 0};
  plan.Build(kShape, {&prompt, 1}, 2);
  EXPECT_LE(Imbalance(plan, 2), 1.2);
  const AttentionSequence long_prompt = {blocks.data(), 0, 512, 0};
  plan.Build(kShape, {&long_prompt, 1}, 8);
  EXPECT_LE(Imbalance(plan, 8), 1.2);
}

TEST(AttentionPlanTest, ALoneWorkerGetsNoPartialStates) {
  std::vector<int32_t> blocks(100);
  AttentionPlan plan;
  const AttentionSequence decode = {blocks.data(), 3000, 1, 0};
  plan.Build(kShape, {&decode, 1}, 1);
  EXPECT_EQ(plan.partial_floats(), 0u);
  EXPECT_EQ(plan.items(), kShape.kv_heads);
}

}  // namespace
}  // namespace tutti::kernels
