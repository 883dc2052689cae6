// Row R14: how --kv-cache-bytes is divided among blocks of layers that keep all tokens, blocks of
// layers with a window, and recurrent states.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "app/loading/model_plan.h"
#include "base/types.h"
#include "engine/policy/window.h"

namespace tutti::app {
namespace {

using ::testing::HasSubstr;

// 22 layers with a window of 512 tokens and 4 without, of 1 KiB a block each.
SequenceMemoryNeeds Windowed() {
  return {.block_bytes = 26 << 10,
          .window_block_bytes = 22 << 10,
          .window = 512,
          .step_tokens = 512,
          .context = 32768};
}

Result<SequenceMemorySizes> Size(const SequenceMemoryNeeds& needs, const std::string& budget,
                                 int sequences) {
  Settings::Inputs inputs;
  inputs.flags = {{"kv-cache-bytes", budget}, {"max-num-seqs", std::to_string(sequences)}};
  return SizeSequenceMemory(Settings::Resolve(inputs).value(), needs);
}

TEST(SequenceMemory, WindowsTakeAQuarterAndHoldTheirBlocksAndOneMore) {
  const SequenceMemorySizes sizes = Size(Windowed(), "64MiB", 8).value();
  EXPECT_EQ(sizes.window_blocks, (16 << 20) / (22 << 10));
  EXPECT_EQ(sizes.kv_blocks, ((64 << 20) - sizes.window_blocks * (22 << 10)) / (4 << 10));
  EXPECT_EQ(sizes.sequence_window_bytes, (512 / kBlockTokens + 1) * (22 << 10));
  // Were all layers to keep all tokens, it held 2520 blocks.
  EXPECT_GT(sizes.kv_blocks, 4 * 2520);
  EXPECT_EQ(sizes.window_sequences, 8);
  EXPECT_EQ(sizes.notice, "");
}

TEST(SequenceMemory, WindowsOfAllSequencesComeFirst) {
  const SequenceMemorySizes sizes = Size(Windowed(), "64MiB", 32).value();
  EXPECT_EQ(sizes.window_blocks, 32 * (engine::WindowBlocks(512, 512) + 1));
  EXPECT_EQ(sizes.window_sequences, 32);
  EXPECT_EQ(sizes.notice, "");
}

TEST(SequenceMemory, FewerWindowsThanSequencesAreTold) {
  const SequenceMemorySizes sizes = Size(Windowed(), "8MiB", 8).value();
  EXPECT_GE(sizes.kv_blocks * kBlockTokens, 32768) << "one context must fit";
  EXPECT_LT(sizes.window_sequences, 8);
  EXPECT_GE(sizes.window_blocks, sizes.window_sequences * (engine::WindowBlocks(512, 512) + 1));
  EXPECT_THAT(sizes.notice,
              HasSubstr("--kv-cache-bytes 8MiB holds the windows of " +
                        std::to_string(sizes.window_sequences) + " of 8 long sequences at once"));
}

TEST(SequenceMemory, MemoryWithoutRoomForAWindowIsSharedAndTold) {
  SequenceMemoryNeeds needs = Windowed();
  needs.block_bytes *= 2;
  needs.window_block_bytes *= 2;
  const SequenceMemorySizes sizes = Size(needs, "1MiB", 1).value();
  EXPECT_EQ(sizes.window_blocks, 0);
  EXPECT_EQ(sizes.kv_blocks, (1 << 20) / (52 << 10));
  EXPECT_EQ(sizes.kv_bytes, sizes.kv_blocks * (52 << 10));
  EXPECT_THAT(sizes.notice, HasSubstr("layers with a window of 512 tokens keep all tokens"));
}

TEST(SequenceMemory, TheBytesThatAContextNeedsHoldIt) {
  for (const size_t state : {size_t{0}, size_t{100}, size_t{1'000'000}}) {
    for (const size_t layers_without : {0, 1, 4, 40}) {
      for (const int context : {600, 5000, 32768}) {
        SequenceMemoryNeeds needs = Windowed();
        needs.block_bytes = needs.window_block_bytes + layers_without * 1024;
        needs.context = context;
        needs.state_bytes = state;
        const int64_t bytes = Size(needs, "1GiB", 4).value().context_bytes;
        const SequenceMemorySizes least =
            Size(needs, std::to_string(std::max<int64_t>(bytes, 1 << 20)), 4).value();
        EXPECT_GE(least.kv_blocks * kBlockTokens, context) << state << " " << layers_without;
        const int64_t all = BlocksFor(context) * static_cast<int64_t>(needs.block_bytes);
        if (state == 0) {
          EXPECT_LE(bytes, all);
        }
      }
    }
  }
}

TEST(SequenceMemory, AWindowAsLongAsTheContextFreesNothing) {
  SequenceMemoryNeeds needs = Windowed();
  needs.context = needs.window;
  const SequenceMemorySizes sizes = Size(needs, "64MiB", 8).value();
  EXPECT_EQ(sizes.window_blocks, 0);
  EXPECT_EQ(sizes.kv_blocks, (64 << 20) / (26 << 10));
  EXPECT_EQ(sizes.notice, "");
}

TEST(SequenceMemory, WindowsInAllLayersTakeAllMemory) {
  SequenceMemoryNeeds needs = Windowed();
  needs.window_block_bytes = needs.block_bytes;
  const SequenceMemorySizes sizes = Size(needs, "64MiB", 8).value();
  EXPECT_EQ(sizes.window_blocks, (64 << 20) / (26 << 10));
  EXPECT_EQ(sizes.kv_bytes, int64_t{sizes.window_blocks} * (26 << 10));
  // Blocks by name for all contexts and what is kept.
  EXPECT_EQ(sizes.kv_blocks, sizes.window_blocks + 8 * 32768 / kBlockTokens);
  // Names are bounded: each has an entry in the index.
  needs.block_bytes = needs.window_block_bytes = 64;
  EXPECT_EQ(Size(needs, "16TiB", 8).value().kv_blocks, 1 << 17);
}

// Whatever the model and the budget, what is handed out is paid for and serves one sequence.
TEST(SequenceMemory, NeverExceedsTheBudgetAndAlwaysServesOneSequence) {
  int split = 0, shared = 0;
  for (const size_t layers_without : {0, 1, 4, 40}) {
    for (const int window : {1, 16, 512, 4096}) {
      for (const size_t state : {size_t{0}, size_t{10'000}}) {
        for (const int sequences : {1, 3, 64}) {
          for (int64_t budget = 1 << 20; budget < int64_t{1} << 33; budget = budget * 3 + 7) {
            SequenceMemoryNeeds needs = Windowed();
            needs.window = window;
            needs.state_bytes = state;
            needs.block_bytes = needs.window_block_bytes + layers_without * 1024;
            const auto sized = Size(needs, std::to_string(budget), sequences);
            ASSERT_TRUE(sized.ok()) << sized.status();
            const int64_t bytes =
                sized->kv_bytes + int64_t{sized->state_slots} * static_cast<int64_t>(state);
            ASSERT_LE(bytes, budget);
            ASSERT_GT(sized->kv_blocks, 0);
            ASSERT_EQ(sized->window_blocks > 0, sized->sequence_window_bytes > 0);
            if (sized->window_blocks == 0) {
              ASSERT_NE(sized->notice, "");
              ++shared;
              continue;
            }
            ++split;
            ASSERT_GT(sized->window_blocks, engine::WindowBlocks(window, needs.step_tokens));
            ASSERT_GE(sized->window_sequences, 1);
            ASSERT_EQ(sized->window_sequences < sequences, sized->notice != "");
            ASSERT_GE(sized->kv_blocks, sized->kv_bytes / static_cast<int64_t>(needs.block_bytes));
          }
        }
      }
    }
  }
  EXPECT_GT(split, 100);
  EXPECT_GT(shared, 10);
}

}  // namespace
}  // namespace tutti::app
