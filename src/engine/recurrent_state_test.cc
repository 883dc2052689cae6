// Row R14: recurrent states of sequences: several turns, forks, preemption and failed steps cost
// what they cost a model without states, and change no answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/decoder_instance.h"
#include "engine/policy/checkpoint.h"
#include "engine/testing/engine_harness.h"

namespace tutti::engine {
namespace {

using testing::EngineHarness;
using testing::FakeModelOptions;
using testing::TestPrompt;
using testing::TestRequest;
using testing::TextOf;

FakeModelOptions Recurrent(int slots, int blocks = 256) {
  FakeModelOptions model;
  model.limits.kv_blocks = blocks;
  model.limits.state_slots = slots;
  return model;
}

EngineOptions Sequences(int max_num_seqs) {
  EngineOptions options;
  options.scheduler.max_num_seqs = max_num_seqs;
  return options;
}

TEST(Checkpoint, IsWantedAtTheseTokens) {
  const auto all = [](CheckpointView v) {
    std::vector<int> positions;
    while (v.start < v.size && positions.size() < 50) {
      const int next = NextCheckpoint(v);
      if (next > v.size) break;
      positions.push_back(next);
      v.start = next;
    }
    return positions;
  };
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  EXPECT_THAT(all({.size = 40, .prompt = 40}), IsEmpty());
  EXPECT_THAT(all({.size = 100, .prompt = 100}), ElementsAre(96));
  EXPECT_THAT(all({.size = 97, .prompt = 97}), ElementsAre(96));
  EXPECT_THAT(all({.size = 96, .prompt = 96}), ElementsAre(64));
  EXPECT_THAT(all({.size = 1200, .prompt = 1200}), ElementsAre(512, 1024, 1184));
  EXPECT_THAT(all({.size = 1200, .prompt = 1200, .branch = 320}),
              ElementsAre(320, 512, 1024, 1184));
  EXPECT_THAT(all({.size = 100, .prompt = 100, .forks = true}), ElementsAre(96, 99));
  EXPECT_THAT(all({.size = 100, .prompt = 100, .cached = false, .forks = true}), ElementsAre(99));
  EXPECT_THAT(all({.size = 100, .prompt = 100, .cached = false}), IsEmpty());
  EXPECT_EQ(NextCheckpoint({.start = 130, .size = 131, .prompt = 100}), 160) << "in an answer";
}

TEST(RecurrentState, ASecondTurnComputesOnlyTheNewTokens) {
  for (const int prompt : {20, 63, 64, 100, 700}) {
    for (const int answer : {1, 12, 13, 29, 60}) {
      EngineHarness h(Sequences(4), Recurrent(16));
      const std::vector<TokenId> first = TestPrompt(1, prompt);
      EXPECT_EQ(h.TokensComputed(TestRequest(first, answer)), prompt + answer - 1);
      std::vector<TokenId> second = TextOf(first, h.client(0).choices[0].tokens);
      second = TextOf(second, TestPrompt(2, 15));
      // The last token of the answer was drawn and never computed.
      EXPECT_EQ(h.TokensComputed(TestRequest(second, 5)), 1 + 15 + 5 - 1);
      EXPECT_EQ(h.client(1).usage.cached_tokens, prompt + answer - 1);
      EXPECT_EQ(h.FindFault(), "");
    }
  }
}

TEST(RecurrentState, ATurnThatDropsTheEndOfTheAnswerContinuesAtItsLastBlock) {
  EngineHarness h(Sequences(4), Recurrent(16));
  const std::vector<TokenId> first = TestPrompt(1, 100);
  h.TokensComputed(TestRequest(first, 90));
  std::vector<TokenId> answer = h.client(0).choices[0].tokens;
  answer.resize(82);  // 182 tokens are known, the state after 160 is kept
  h.TokensComputed(TestRequest(TextOf(TextOf(first, answer), TestPrompt(2, 15)), 5));
  EXPECT_EQ(h.client(1).usage.cached_tokens, 160);
  // A prompt that drops the whole answer continues at the prompt's last block.
  h.TokensComputed(TestRequest(TextOf(first, TestPrompt(3, 15)), 5));
  EXPECT_EQ(h.client(2).usage.cached_tokens, 96);
  EXPECT_EQ(h.FindFault(), "");
}

TEST(RecurrentState, ACommonBeginningIsFoundFromItsThirdUseOn) {
  EngineHarness h(Sequences(4), Recurrent(16));
  const std::vector<TokenId> system = TestPrompt(1, 200);
  for (int i = 0; i < 4; ++i) {
    h.TokensComputed(TestRequest(TextOf(system, TestPrompt(10 + i, 70)), 5));
    EXPECT_EQ(h.client(static_cast<size_t>(i)).usage.cached_tokens, i < 2 ? 0 : 192);
  }
  EXPECT_EQ(h.FindFault(), "");
}

TEST(RecurrentState, ChoicesOfOnePromptComputeItOnce) {
  for (const bool cache : {true, false}) {
    for (const int prompt : {2, 20, 65, 100}) {
      EngineHarness h(Sequences(8), Recurrent(16));
      Request r = TestRequest(TestPrompt(1, prompt), 6, 0.9);
      r.n = 5;
      r.use_prefix_cache = cache;
      // Each choice computes the prompt's last token, and all but the last one that it draws.
      EXPECT_EQ(h.TokensComputed(std::move(r)), prompt + 4 + 5 * 5) << cache << " " << prompt;
      EXPECT_EQ(h.FindFault(), "");
    }
  }
}

TEST(RecurrentState, APreemptedSequenceComputesNothingAgain) {
  EngineOptions options = Sequences(1);
  EngineHarness h(options, Recurrent(4));
  Request batch = TestRequest(TestPrompt(1, 90), 100);
  batch.priority = api::Priority::kBatch;
  h.MustSubmit(std::move(batch));
  for (int i = 0; i < 3; ++i) {
    h.At(std::chrono::milliseconds(120 + 200 * i),
         [&h, i] { h.MustSubmit(TestRequest(TestPrompt(5 + i, 40), 10)); });
  }
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_GE(h.engine().stats().preemptions, 2u);
  EXPECT_EQ(h.runner().tokens_computed(), 90u + 99u + 3u * (40u + 9u));
  EXPECT_EQ(h.FindFault(), "");
}

TEST(RecurrentState, FewSlotsServeAll) {
  for (const int slots : {1, 2, 3, 5}) {
    for (const bool cache : {true, false}) {
      EngineOptions options = Sequences(8);
      options.scheduler.prefix_cache = cache;
      EngineHarness h(options, Recurrent(slots, 40));
      for (int i = 0; i < 30; ++i) {
        Request r = TestRequest(TestPrompt(i % 4, 30 + 7 * i), 20 + i, i % 2 ? 0.9 : 0.0);
        r.n = i % 7 == 0 ? 3 : 1;
        h.MustSubmit(std::move(r));
      }
      int most = 0;
      while (h.RunOnce()) most = std::max(most, h.engine().stats().running);
      EXPECT_LE(most, slots);
      EXPECT_EQ(h.FindFault(), "");
    }
  }
}

TEST(RecurrentState, AFailedStepIsComputedAgainFromCheckpoints) {
  for (const uint64_t failing : {1u, 2u, 5u, 9u, 30u, 31u, 40u}) {
    EngineHarness h(Sequences(8), Recurrent(24));
    h.runner().fault = [&](const StepPlan&, const SequenceSlice* slice) {
      return slice == nullptr && h.runner().steps() == failing ? Internal("broken") : OkStatus();
    };
    for (int i = 0; i < 6; ++i) h.MustSubmit(TestRequest(TestPrompt(i, 50 + 20 * i), 70));
    ASSERT_TRUE(h.RunToEnd());
    EXPECT_EQ(h.FindFault(), "");
    // What was lost lies behind each sequence's last checkpoint.
    const uint64_t once = 6 * (50 + 69) + 20 * 15;
    EXPECT_LE(h.runner().tokens_computed(), once + 6 * 2 * kBlockTokens + 512);
  }
}

TEST(RecurrentState, ASequenceThatBreaksEachStepFailsAlone) {
  EngineHarness h(Sequences(8), Recurrent(24));
  for (int i = 0; i < 6; ++i) {
    Request r = TestRequest(TestPrompt(i, 50 + 20 * i), 60);
    r.id = std::to_string(i);
    h.MustSubmit(std::move(r));
  }
  const auto is_bad = [&](const SequenceSlice& slice) {
    for (const auto& work : h.engine().decoder_for_test().works()) {
      if (work->request.id == "3") return work->sequences[0]->id == slice.sequence;
    }
    return false;
  };
  h.runner().fault = [&](const StepPlan& plan, const SequenceSlice* slice) {
    if (slice != nullptr || h.runner().steps() < 12) return OkStatus();
    return std::any_of(plan.slices.begin(), plan.slices.end(), is_bad) ? Internal("broken")
                                                                       : OkStatus();
  };
  ASSERT_TRUE(h.RunToEnd());
  for (size_t i = 0; i < h.size(); ++i) {
    if (i == 3) {
      EXPECT_EQ(h.client(i).status().reason(), "internal_error");
      continue;
    }
    EXPECT_TRUE(h.client(i).status().ok()) << i;
    EXPECT_EQ(h.client(i).choices[0].tokens, h.Solo(h.client(i).request)) << i;
  }
  EXPECT_THAT(h.runner().violations(), ::testing::IsEmpty());
}

TEST(RecurrentState, StepsHaveNoDraftTokensAndAreNotAborted) {
  EngineOptions options = Sequences(4);
  options.scheduler.speculate = true;
  FakeModelOptions model = Recurrent(16);
  model.repeats_itself = true;
  EngineHarness h(options, model);
  for (int i = 0; i < 3; ++i) {
    Request r = TestRequest(TestPrompt(i, 200), 100);
    r.priority = api::Priority::kBatch;
    h.MustSubmit(std::move(r));
  }
  h.At(std::chrono::milliseconds(50), [&h] { h.MustSubmit(TestRequest(TestPrompt(9, 40), 10)); });
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(h.engine().stats().draft_tokens, 0u);
  EXPECT_EQ(h.runner().aborted(), 0u);
  EXPECT_EQ(h.FindFault(), "");
}

}  // namespace
}  // namespace tutti::engine
