// Row R25: prefixes outlive eviction and the engine, change no answer, and delay nobody for long.
#include "engine/prefix_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/decoder_instance.h"
#include "engine/testing/engine_harness.h"
#include "engine/testing/fake_prefix_store.h"

namespace tutti::engine {
namespace {

using testing::EngineHarness;
using testing::FakeModelOptions;
using testing::FakePrefixStore;
using testing::TestPrompt;
using testing::TestRequest;
using testing::TextOf;

struct StoredModel {
  explicit StoredModel(const FakeModelOptions& options) : model(options), store(options) {}
  FakeModelOptions model;
  FakePrefixStore store;
};

FakeModelOptions ModelOf(int blocks, int states = 0, int window = 0) {
  FakeModelOptions model;
  model.limits.kv_blocks = blocks;
  model.limits.state_slots = states;
  model.limits.window = window;
  model.limits.window_blocks = window > 0 ? blocks : 0;
  model.limits.max_step_tokens = 600;
  return model;
}

EngineOptions RunTogether(int max_num_seqs) {
  EngineOptions options;
  options.scheduler.max_num_seqs = max_num_seqs;
  return options;
}

// An engine of its own for each use: a restart.
struct Restarted : EngineHarness {
  explicit Restarted(StoredModel& kept, int max_num_seqs = 4)
      : EngineHarness(RunTogether(max_num_seqs), kept.model, {}, false, nullptr, std::nullopt,
                      &kept.store) {}
};

TEST(UsableBlocks, EndWhereAHitMayEnd) {
  const auto usable = [](std::vector<kv::StoredBlock> blocks, int first, bool states, bool windows,
                         int window) {
    return UsableBlocks(blocks, first, states, windows, window);
  };
  const kv::StoredBlock plain, state{.parts = {.state = true}},
      windowed{.parts = {.window_block = true}};
  EXPECT_EQ(usable({plain, plain}, 3, false, false, 0), 2u);
  EXPECT_EQ(usable({plain, state, plain}, 3, true, false, 0), 2u);
  EXPECT_EQ(usable({plain, plain}, 3, true, false, 0), 0u);
  // The next token sees 40 tokens: one whole block and a part of the one before.
  EXPECT_EQ(usable({plain, windowed, windowed, windowed}, 0, false, true, 40), 4u);
  EXPECT_EQ(usable({plain, windowed, windowed, plain}, 0, false, true, 40), 3u);
  EXPECT_EQ(usable({plain, windowed}, 0, false, true, 40), 0u);
  EXPECT_EQ(usable({}, 0, true, true, 40), 0u);
}

TEST(UsableBlocks, DropsPartsThatAHitDoesNotNeed) {
  std::vector<kv::StoredBlock> blocks(3, {.parts = {.window_block = true, .state = true}});
  ASSERT_EQ(UsableBlocks(blocks, 5, true, true, 34), 3u);
  EXPECT_EQ(blocks[0].parts, (kv::BlockParts{}));
  EXPECT_EQ(blocks[1].parts, (kv::BlockParts{.window_block = true}));
  EXPECT_EQ(blocks[2].parts, (kv::BlockParts{.window_block = true, .state = true}));
}

TEST(PrefixTransfer, ARestartComputesOnlyTheEnd) {
  StoredModel kept(ModelOf(64));
  const std::vector<TokenId> prompt = TestPrompt(1, 500);
  {
    Restarted h(kept);
    EXPECT_EQ(h.TokensComputed(TestRequest(prompt, 10)), 509);
  }
  EXPECT_EQ(kept.store.blocks(), 15u);  // 509 tokens are computed
  Restarted h(kept);
  EXPECT_EQ(h.TokensComputed(TestRequest(prompt, 10)), 500 - 480 + 9);
  EXPECT_EQ(h.client(0).usage.cached_tokens, 480);
  EXPECT_EQ(h.FindFault(), "");
  EXPECT_EQ(h.engine().stats().prefix_loads, 1u);
  EXPECT_EQ(h.engine().stats().loaded_prefix_tokens, 480u);
  EXPECT_EQ(h.engine().stats().failed_prefix_loads, 0u);
}

TEST(PrefixTransfer, ASecondTurnContinuesAStateAfterARestart) {
  StoredModel kept(ModelOf(64, /*states=*/16));
  const std::vector<TokenId> first = TestPrompt(1, 200);
  std::vector<TokenId> second;
  {
    Restarted h(kept);
    h.TokensComputed(TestRequest(first, 13));
    second = TextOf(TextOf(first, h.client(0).choices[0].tokens), TestPrompt(2, 40));
  }
  Restarted h(kept);
  EXPECT_EQ(h.TokensComputed(TestRequest(second, 5)), 1 + 40 + 4);
  EXPECT_EQ(h.client(0).usage.cached_tokens, 212);
  EXPECT_EQ(h.FindFault(), "");
}

TEST(PrefixTransfer, AWindowIsThereAfterARestart) {
  for (const int window : {1, 40, 100, 1000}) {
    StoredModel kept(ModelOf(64, 0, window));
    const std::vector<TokenId> prompt = TestPrompt(1, 500);
    {
      Restarted h(kept);
      h.TokensComputed(TestRequest(prompt, 30));
    }
    Restarted h(kept);
    EXPECT_EQ(h.TokensComputed(TestRequest(prompt, 10)), 500 - 480 + 9) << window;
    EXPECT_EQ(h.FindFault(), "");
  }
}

TEST(PrefixTransfer, StatesAndWindowsTogether) {
  StoredModel kept(ModelOf(64, 16, 70));
  const std::vector<TokenId> first = TestPrompt(1, 300);
  std::vector<TokenId> second;
  {
    Restarted h(kept);
    h.TokensComputed(TestRequest(first, 30));
    second = TextOf(TextOf(first, h.client(0).choices[0].tokens), TestPrompt(2, 40));
  }
  Restarted h(kept);
  EXPECT_EQ(h.TokensComputed(TestRequest(second, 5)), 1 + 40 + 4);
  EXPECT_EQ(h.FindFault(), "");
}

TEST(PrefixTransfer, EvictedBlocksComeBack) {
  StoredModel kept(ModelOf(20));
  Restarted h(kept);
  const std::vector<TokenId> prompt = TestPrompt(1, 320);
  h.TokensComputed(TestRequest(prompt, 2));
  for (int i = 2; i < 6; ++i) h.TokensComputed(TestRequest(TestPrompt(i, 400), 2));
  ASSERT_GT(h.engine().stats().kv_evicted_blocks, 10u);
  EXPECT_EQ(h.TokensComputed(TestRequest(prompt, 2)), 320 - 288 + 1);
  EXPECT_EQ(h.FindFault(), "");
}

TEST(PrefixTransfer, TenantsAndSaltsAreApart) {
  StoredModel kept(ModelOf(64));
  const std::vector<TokenId> prompt = TestPrompt(1, 200);
  const auto request = [&](const char* tenant, const char* salt) {
    Request r = TestRequest(prompt, 2);
    r.tenant = tenant;
    r.cache_salt = salt;
    return r;
  };
  {
    Restarted h(kept);
    h.TokensComputed(request("a", "s"));
  }
  Restarted h(kept);
  EXPECT_EQ(h.TokensComputed(request("b", "s")), 201);
  EXPECT_EQ(h.TokensComputed(request("a", "t")), 201);
  EXPECT_EQ(h.TokensComputed(request("as", "")), 201);
  EXPECT_EQ(h.TokensComputed(request("a", "s")), 201 - 192);
  EXPECT_EQ(h.FindFault(), "");
}

TEST(PrefixTransfer, AFailedReadIsComputed) {
  StoredModel kept(ModelOf(64));
  const std::vector<TokenId> prompt = TestPrompt(1, 200);
  {
    Restarted h(kept);
    h.TokensComputed(TestRequest(prompt, 2));
  }
  kept.store.fails = [] { return true; };
  Restarted h(kept);
  EXPECT_EQ(h.TokensComputed(TestRequest(prompt, 2)), 201);
  EXPECT_EQ(h.engine().stats().failed_prefix_loads, 1u);
  EXPECT_EQ(h.FindFault(), "");
}

TEST(PrefixTransfer, AReadThatNeverEndsDelaysByItsLimit) {
  StoredModel kept(ModelOf(64));
  const std::vector<TokenId> prompt = TestPrompt(1, 200);
  {
    Restarted h(kept);
    h.TokensComputed(TestRequest(prompt, 2));
  }
  kept.store.read_delay = 1 << 30;
  Restarted h(kept);
  const size_t waits = h.MustSubmit(TestRequest(prompt, 2));
  const size_t other = h.MustSubmit(TestRequest(TestPrompt(2, 100), 2));
  ASSERT_TRUE(h.RunToEnd());
  const Duration patience = SchedulerOptions().load_patience;
  EXPECT_GE(h.client(waits).first_token(), patience);
  EXPECT_LT(h.client(waits).first_token(), patience + std::chrono::seconds(1));
  EXPECT_LT(h.client(other).first_token(), std::chrono::seconds(1));
  EXPECT_EQ(h.FindFault(), "");
}

TEST(PrefixTransfer, RequestsWithOnePrefixShareItsLoad) {
  StoredModel kept(ModelOf(64));
  const std::vector<TokenId> prompt = TestPrompt(1, 330);
  {
    Restarted h(kept);
    h.TokensComputed(TestRequest(prompt, 2));
  }
  kept.store.read_delay = 5;
  Restarted h(kept);
  for (int i = 0; i < 4; ++i) h.MustSubmit(TestRequest(TextOf(prompt, TestPrompt(10 + i, 20)), 2));
  Request several = TestRequest(prompt, 2, 0.9);
  several.n = 3;
  h.MustSubmit(std::move(several));
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(kept.store.reads(), 1);
  for (size_t i = 0; i < 4; ++i) EXPECT_GE(h.client(i).usage.cached_tokens, 320);
  EXPECT_EQ(h.FindFault(), "");
}

TEST(PrefixTransfer, ACancelledRequestEndsItsLoad) {
  StoredModel kept(ModelOf(64));
  const std::vector<TokenId> prompt = TestPrompt(1, 330);
  {
    Restarted h(kept);
    h.TokensComputed(TestRequest(prompt, 2));
  }
  kept.store.read_delay = 1 << 30;
  Restarted h(kept);
  const size_t i = h.MustSubmit(TestRequest(prompt, 2));
  h.At(std::chrono::milliseconds(100), [&] { h.client(i).generation.Cancel(); });
  for (int k = 0; k < 300; ++k) (void)h.RunOnce();
  const DecoderInstance& decoder = h.engine().decoder_for_test();
  EXPECT_EQ(decoder.transfer()->loads(), 0);
  EXPECT_EQ(decoder.pool().active(), 0);
}

TEST(PrefixTransfer, LoadsGiveWayToRunningSequences) {
  StoredModel kept(ModelOf(24));
  const std::vector<TokenId> prompt = TestPrompt(1, 600);
  {
    Restarted h(kept);
    h.TokensComputed(TestRequest(prompt, 2));
  }
  kept.store.read_delay = 3;
  for (const int answer : {300, 500}) {
    Restarted h(kept);
    h.MustSubmit(TestRequest(TestPrompt(2, 100), answer));
    h.At(std::chrono::milliseconds(400), [&] { h.MustSubmit(TestRequest(prompt, 3)); });
    ASSERT_TRUE(h.RunToEnd());
    EXPECT_EQ(h.FindFault(), "");
  }
}

TEST(PrefixTransfer, AFullQueueDropsNothingThatThePoolKeeps) {
  StoredModel kept(ModelOf(64));
  int refusals = 20;
  kept.store.refuses = [&] { return --refusals > 0; };
  const std::vector<TokenId> prompt = TestPrompt(1, 330);
  {
    Restarted h(kept);
    h.TokensComputed(TestRequest(prompt, 2));
  }
  EXPECT_EQ(kept.store.blocks(), 10u);
}

TEST(PrefixTransfer, WhatAFailedRequestComputedIsNotKept) {
  StoredModel kept(ModelOf(64));
  Restarted h(kept);
  h.runner().fault = [&](const StepPlan&, const SequenceSlice* slice) {
    return slice != nullptr && slice->start > 300 ? Internal("broken") : OkStatus();
  };
  h.MustSubmit(TestRequest(TestPrompt(1, 900), 2));
  ASSERT_TRUE(h.RunToEnd());
  ASSERT_EQ(h.client(0).status().reason(), "internal_error");
  EXPECT_EQ(kept.store.blocks(), 0u);
}

TEST(PrefixTransfer, APromptThatDiffersFindsTheCommonBlocks) {
  StoredModel kept(ModelOf(64));
  const std::vector<TokenId> common = TestPrompt(1, 200);
  {
    Restarted h(kept);
    h.TokensComputed(TestRequest(TextOf(common, TestPrompt(2, 100)), 2));
  }
  {
    Restarted h(kept);
    EXPECT_EQ(h.TokensComputed(TestRequest(TextOf(common, TestPrompt(3, 100)), 2)), 301 - 192);
    EXPECT_EQ(h.FindFault(), "");
  }
  EXPECT_EQ(kept.store.blocks(), 9u + 3u) << "the common blocks are kept once";
  Restarted h(kept);
  EXPECT_EQ(h.TokensComputed(TestRequest(TextOf(common, TestPrompt(3, 100)), 2)), 301 - 288);
  EXPECT_EQ(h.TokensComputed(TestRequest(TextOf(common, TestPrompt(2, 100)), 2)), 301 - 288);
  EXPECT_EQ(h.FindFault(), "");
}

}  // namespace
}  // namespace tutti::engine
