// Row R14: layers with a sliding window whose blocks have memory of their own: blocks behind the
// window are freed, and prefix hits, forks and preemption change no answer.
#include "engine/policy/window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/decoder_instance.h"
#include "engine/testing/engine_harness.h"

namespace tutti::engine {
namespace {

using testing::EngineHarness;
using testing::FakeModelOptions;
using testing::TestPrompt;
using testing::TestRequest;
using testing::TextOf;

FakeModelOptions Windowed(int window, int window_blocks, int blocks = 256) {
  FakeModelOptions model;
  model.limits.kv_blocks = blocks;
  model.limits.window = window;
  model.limits.window_blocks = window_blocks;
  return model;
}

EngineOptions AtOnce(int max_num_seqs) {
  EngineOptions options;
  options.scheduler.max_num_seqs = max_num_seqs;
  options.scheduler.speculate = false;  // draft tokens are computed too
  return options;
}

TEST(Window, BlocksThatQueriesSee) {
  for (const int window : {1, 2, 31, 32, 33, 100, 128}) {
    for (const int rows : {1, 2, 31, 32, 33, 64}) {
      int most = 0;
      for (int start = 0; start < 400; ++start) {
        const int first = FirstWindowBlock(start, window);
        int seen = start;  // the first key that the query at `start` sees
        while (seen > 0 && start - (seen - 1) < window) --seen;
        ASSERT_EQ(first, seen / kBlockTokens) << window << " " << start;
        most = std::max(most, (start + rows - 1) / kBlockTokens - first + 1);
      }
      EXPECT_EQ(WindowBlocks(window, rows), most) << window << " " << rows;
    }
  }
}

// R14: at 32k the windows hold their own blocks, and one more.
TEST(Window, ALongContextHoldsTheBlocksOfItsWindow) {
  constexpr int kWindow = 512, kPrompt = 32'000;
  FakeModelOptions model = Windowed(kWindow, WindowBlocks(kWindow, 512) + 1, 1024);
  model.limits.context = 1 << 15;
  model.sample_rows = false;
  EngineHarness h(AtOnce(2), model);
  h.MustSubmit(TestRequest(TestPrompt(1, kPrompt), 100));
  const kv::KvBlockPool& pool = h.engine().decoder_for_test().pool();
  int most = 0;
  while (h.RunOnce()) {
    if (!h.client(0).done()) most = std::max(most, pool.window_blocks().active());
  }
  EXPECT_EQ(most, kWindow / kBlockTokens + 1);
  const EngineStats stats = h.engine().stats();
  EXPECT_EQ(stats.window_blocks_total, model.limits.window_blocks);
  EXPECT_EQ(stats.window_blocks_active, 0) << "after its end";
  EXPECT_EQ(stats.window_blocks_free + stats.window_blocks_cached, stats.window_blocks_total);
  EXPECT_EQ(stats.evicted_window_blocks, pool.window_blocks().evicted());
  EXPECT_GT(pool.total(), 1000);
  EXPECT_EQ(h.FindFault(), "");
}

TEST(Window, ASecondTurnComputesOnlyTheNewTokens) {
  for (const int window : {1, 20, 32, 64, 200}) {
    for (const int prompt : {20, 64, 100, 700}) {
      EngineHarness h(AtOnce(2), Windowed(window, 60));
      const std::vector<TokenId> first = TestPrompt(1, prompt);
      EXPECT_EQ(h.TokensComputed(TestRequest(first, 30)), prompt + 29);
      std::vector<TokenId> second = TextOf(first, h.client(0).choices[0].tokens);
      EXPECT_EQ(h.TokensComputed(TestRequest(TextOf(second, TestPrompt(2, 15)), 5)), 1 + 15 + 4);
      EXPECT_EQ(h.FindFault(), "");
    }
  }
}

TEST(Window, AHitNeedsTheBlocksOfTheWindowAtItsEnd) {
  EngineHarness h(AtOnce(1), Windowed(64, 40));
  const std::vector<TokenId> system = TestPrompt(1, 200);
  h.TokensComputed(TestRequest(TextOf(system, TestPrompt(2, 300)), 5));
  // Blocks behind the window are still known, as there was room.
  h.TokensComputed(TestRequest(TextOf(system, TestPrompt(3, 50)), 5));
  EXPECT_EQ(h.client(1).usage.cached_tokens, 200);
  // Others take their place: the blocks of the other layers alone are not enough.
  h.TokensComputed(TestRequest(TestPrompt(4, 1500), 5));
  EXPECT_GT(h.engine().decoder_for_test().pool().window_blocks().evicted(), 0u);
  EXPECT_EQ(h.engine().decoder_for_test().pool().evicted(), 0u);
  h.TokensComputed(TestRequest(TextOf(system, TestPrompt(5, 50)), 5));
  EXPECT_EQ(h.client(3).usage.cached_tokens, 0);
  EXPECT_EQ(h.FindFault(), "");
}

TEST(Window, ChoicesOfOnePromptComputeItOnce) {
  for (const bool cache : {true, false}) {
    for (const int prompt : {2, 20, 65, 100}) {
      EngineHarness h(AtOnce(8), Windowed(40, 256));
      Request r = TestRequest(TestPrompt(1, prompt), 6, 0.9);
      r.n = 5;
      r.use_prefix_cache = cache;
      EXPECT_EQ(h.TokensComputed(std::move(r)), prompt + 4 + 5 * 5) << cache << " " << prompt;
      EXPECT_EQ(h.FindFault(), "");
    }
  }
}

// The windows' memory bounds how many run at once, and no running sequence waits for it.
TEST(Window, TheLeastMemoryServesAll) {
  for (const bool cache : {true, false}) {
    for (const int window : {1, 33, 100}) {
      EngineOptions options = AtOnce(8);
      options.scheduler.prefix_cache = cache;
      options.scheduler.prefill_chunk = options.scheduler.prefill_chunk_alone = 64;
      EngineHarness h(options, Windowed(window, WindowBlocks(window, 64) + 1, 60));
      for (int i = 0; i < 30; ++i) {
        Request r = TestRequest(TestPrompt(i % 4, 30 + 7 * i), 20 + i, i % 2 ? 0.9 : 0.0);
        r.n = i % 7 == 0 ? 3 : 1;
        h.MustSubmit(std::move(r));
      }
      ASSERT_TRUE(h.RunToEnd());
      EXPECT_EQ(h.FindFault(), "");
    }
  }
}

// Such memory once ended the program at its start.
TEST(Window, AContextShorterThanAChunkBoundsTheLeastMemory) {
  FakeModelOptions model = Windowed(64, 256 / kBlockTokens + 1, 60);
  model.limits.context = 256;
  ASSERT_LT(model.limits.window_blocks,
            WindowBlocks(64, EngineOptions().scheduler.prefill_chunk_alone));
  EngineHarness h(AtOnce(8), model);
  for (int i = 0; i < 30; ++i)
    h.MustSubmit(TestRequest(TestPrompt(i % 4, 20 + 7 * i), 30, i % 2 ? 0.9 : 0.0));
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(h.FindFault(), "");
}

}  // namespace
}  // namespace tutti::engine
