// Row N07: a step is a transaction, and a failing request fails alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/decoder_instance.h"
#include "engine/invariants.h"
#include "engine/testing/engine_harness.h"

namespace tutti::engine {
namespace {

using testing::EngineHarness;
using testing::FakeModelOptions;
using testing::HarnessClient;
using testing::TestPrompt;
using testing::TestRequest;
using testing::TextOf;

EngineOptions AnyPromptLength(int max_num_seqs) {
  EngineOptions options;
  options.scheduler.max_num_seqs = max_num_seqs;
  options.queue.prompt_tokens_per_kv_token = 1e6;
  return options;
}

// All but `failed` end with their solo output, and nothing is left behind.
void ExpectOnlyOneFailed(EngineHarness& h, size_t failed, std::string_view reason) {
  for (size_t i = 0; i < h.size(); ++i) {
    HarnessClient& c = h.client(i);
    ASSERT_TRUE(c.done());
    if (i == failed) {
      EXPECT_EQ(c.status().reason(), reason);
      continue;
    }
    EXPECT_TRUE(c.status().ok()) << i << ": " << c.status();
    EXPECT_EQ(c.choices[0].tokens, h.Solo(c.request)) << i;
  }
  EXPECT_THAT(h.runner().violations(), ::testing::IsEmpty());
  EngineSnapshot snapshot;
  TakeSnapshot(h.engine().decoder_for_test(), &snapshot);
  EXPECT_EQ(FindViolation(snapshot), "");
  EXPECT_EQ(snapshot.active, 0);
}

uint32_t IdOf(EngineHarness& h, size_t client) {
  for (const auto& work : h.engine().decoder_for_test().works()) {
    if (work->request.id == std::to_string(client)) return work->sequences[0]->id;
  }
  return UINT32_MAX;
}

void Fill(EngineHarness& h, int requests, int tokens = 60) {
  for (int i = 0; i < requests; ++i) {
    Request r =
        TestRequest(TestPrompt(i, 10 + 5 * i), tokens, i % 2 ? 0.8 : 0.0, static_cast<uint64_t>(i));
    r.id = std::to_string(i);
    h.MustSubmit(std::move(r));
  }
}

// N07: injected allocation failure in 1 of 16 sequences leaves 15 outputs unchanged; at every
// moment of its life.
TEST(Transaction, AnAllocationFailureInOneOf16LanesLeaves15OutputsUnchanged) {
  for (const int moment : {0, 1, 5, 20, 40, 50}) {
    FakeModelOptions model;
    model.limits.kv_blocks = 256;
    EngineHarness h(AnyPromptLength(16), model);
    Fill(h, 16);
    int drawn = 0;
    h.engine().decoder_for_test().mutable_pool().SetAllocationFault([&](uint32_t sequence) {
      return sequence == IdOf(h, 7) &&
             static_cast<int>(h.client(7).choices[0].tokens.size()) >= moment && ++drawn > 0;
    });
    ASSERT_TRUE(h.RunToEnd());
    EXPECT_EQ(drawn, 1) << moment;
    ExpectOnlyOneFailed(h, 7, "kv_exhausted");
  }
}

TEST(Transaction, AFailingSliceFailsItsSequenceAlone) {
  for (const int moment : {0, 1, 30}) {
    EngineHarness h(AnyPromptLength(16), {.limits = {.kv_blocks = 256,
                                                     .max_step_tokens = 4096,
                                                     .max_step_slices = 64,
                                                     .context = 4096,
                                                     .vocab_size = 64}});
    Fill(h, 16);
    h.runner().fault = [&](const StepPlan&, const SequenceSlice* slice) {
      const bool strike = slice != nullptr && slice->sequence == IdOf(h, 3) &&
                          static_cast<int>(h.client(3).choices[0].tokens.size()) >= moment;
      return strike ? Internal("not finite") : OkStatus();
    };
    ASSERT_TRUE(h.RunToEnd());
    ExpectOnlyOneFailed(h, 3, "internal_error");
    EXPECT_EQ(h.client(3).choices[0].tokens.size(), static_cast<size_t>(moment));
  }
}

// A request that breaks every step it is in is found by running the members of the broken step one
// by one.
TEST(Transaction, ARequestThatBreaksWholeStepsIsIsolatedAndFailsAlone) {
  for (const int moment : {0, 10, 50}) {
    EngineHarness h(AnyPromptLength(16), {.limits = {.kv_blocks = 256,
                                                     .max_step_tokens = 4096,
                                                     .max_step_slices = 64,
                                                     .context = 4096,
                                                     .vocab_size = 64}});
    Fill(h, 16);
    h.runner().fault = [&](const StepPlan& plan, const SequenceSlice* slice) {
      if (slice != nullptr || static_cast<int>(h.client(5).choices[0].tokens.size()) < moment)
        return OkStatus();
      for (const SequenceSlice& s : plan.slices) {
        if (s.sequence == IdOf(h, 5)) return Internal("the device refused the step");
      }
      return OkStatus();
    };
    ASSERT_TRUE(h.RunToEnd());
    ExpectOnlyOneFailed(h, 5, "internal_error");
  }
}

TEST(Transaction, AStepThatFailsOnceIsRepeatedAndNobodyNotices) {
  EngineHarness h(AnyPromptLength(8));
  Fill(h, 8, 30);
  int strikes = 0;
  h.runner().fault = [&](const StepPlan& plan, const SequenceSlice* slice) {
    // Also in steps that copy a shared block.
    if (slice == nullptr && plan.slices.size() > 1 && plan.step % 7 == 3) {
      ++strikes;
      return Internal("a passing fault");
    }
    return OkStatus();
  };
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_GT(strikes, 2);
  ExpectOnlyOneFailed(h, SIZE_MAX, "");
}

TEST(Transaction, ARunnerThatAnswersNonsenseFailsTheSequenceNotTheProcess) {
  class Liar final : public testing::FakeModelRunner {
   public:
    using FakeModelRunner::FakeModelRunner;
    int mode = 0;
    StepResult Collect() override {
      StepResult result = FakeModelRunner::Collect();
      if (mode == 1) result.slices[0].token = 1 << 20;
      if (mode == 2) result.slices[0].token = -7;
      if (mode == 3) result.slices.clear();
      return result;
    }
  };
  for (int mode = 1; mode <= 3; ++mode) {
    Liar runner{FakeModelOptions()};
    runner.mode = mode;
    testing::FakeTokenText text;
    ManualClock clock;
    Engine engine({}, {&runner, &text, &clock});
    Result<api::Generation> g = engine.Submit(TestRequest(TestPrompt(1, 5), 5), nullptr);
    ASSERT_TRUE(g.ok());
    while (engine.RunOneStep()) {
    }
    ASSERT_TRUE(g->stream().ended());
    EXPECT_EQ(g->stream().status().reason(), "internal_error");
  }
}

// Blocks that earlier slices of a failed sequence had filled once stayed in the prefix index.
TEST(Transaction, AFailedSequenceLeavesNothingInThePrefixIndex) {
  for (const int kind : {0, 1, 2}) {
    FakeModelOptions model;
    model.limits.kv_blocks = 256;
    if (kind == 1) {
      model.limits.window = 64;
      model.limits.window_blocks = 60;
    }
    if (kind == 2) model.limits.state_slots = 16;
    EngineOptions options = AnyPromptLength(4);
    options.scheduler.prefill_chunk = options.scheduler.prefill_chunk_alone = 32;
    options.scheduler.speculate = false;  // draft tokens are computed too
    EngineHarness h(options, model);
    bool fails = true;
    h.runner().fault = [&](const StepPlan&, const SequenceSlice* slice) {
      return fails && slice != nullptr && slice->sample ? Internal("not finite") : OkStatus();
    };
    h.MustSubmit(TestRequest(TestPrompt(1, 200), 5));
    ASSERT_TRUE(h.RunToEnd());
    EXPECT_GT(h.runner().steps(), 5u);
    ExpectOnlyOneFailed(h, 0, "internal_error");
    const kv::KvBlockPool& pool = h.engine().decoder_for_test().pool();
    EXPECT_EQ(pool.index().size(), 0) << kind;
    EXPECT_EQ(pool.free(), pool.total());
    EXPECT_EQ(pool.window_blocks().free(), pool.window_blocks().total());
    EXPECT_EQ(pool.states().free(), pool.states().total());
    fails = false;
    EXPECT_EQ(h.TokensComputed(TestRequest(TestPrompt(1, 200), 5)), 200 + 4) << kind;
    ExpectOnlyOneFailed(h, 0, "internal_error");
  }
}

TEST(Transaction, AFailedSequenceTakesNothingFromOthersWithItsBeginning) {
  EngineOptions options = AnyPromptLength(4);
  options.scheduler.prefill_chunk = options.scheduler.prefill_chunk_alone = 32;
  options.scheduler.speculate = false;  // slices of more than one token are of prompts
  FakeModelOptions model;
  model.limits.kv_blocks = 256;
  EngineHarness h(options, model);
  bool fails = false;
  h.runner().fault = [&](const StepPlan&, const SequenceSlice* slice) {
    const bool strike = fails && slice != nullptr && slice->sample && slice->tokens.size() > 1;
    return strike ? Internal("not finite") : OkStatus();
  };
  const std::vector<TokenId> common = TestPrompt(1, 3 * kBlockTokens);
  h.MustSubmit(TestRequest(TextOf(common, TestPrompt(2, 50)), 80));
  ASSERT_TRUE(h.RunUntil([&] { return h.client(0).choices[0].tokens.size() > 2; }));
  fails = true;  // while the first decodes
  h.MustSubmit(TestRequest(TextOf(common, TestPrompt(3, 50)), 5));
  ASSERT_TRUE(h.RunToEnd());
  fails = false;
  ExpectOnlyOneFailed(h, 1, "internal_error");
  h.MustSubmit(TestRequest(TextOf(common, TestPrompt(4, 50)), 5));
  ASSERT_TRUE(h.RunToEnd());
  ExpectOnlyOneFailed(h, 1, "internal_error");
  EXPECT_EQ(h.client(2).usage.cached_tokens, 3 * kBlockTokens);
}

// A choice that fails ends its request, siblings included, once.
TEST(Transaction, AFailingChoiceEndsItsRequestOnce) {
  EngineHarness h(AnyPromptLength(8));
  Request r = TestRequest(TestPrompt(1, 40), 30, 0.9);
  r.n = 4;
  h.MustSubmit(std::move(r));
  h.MustSubmit(TestRequest(TestPrompt(2, 40), 30));
  h.runner().fault = [&](const StepPlan&, const SequenceSlice* slice) {
    const bool strike = slice != nullptr && slice->sampler != nullptr &&
                        slice->sampler->stream == 2 && slice->sampler->output.size() == 9;
    return strike ? Internal("not finite") : OkStatus();
  };
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(h.client(0).status().reason(), "internal_error");
  EXPECT_TRUE(h.client(1).status().ok());
  EXPECT_EQ(h.engine().decoder_for_test().pool().active(), 0);
  EXPECT_EQ(h.engine().Load().waiting, 0);
}

// N04, as far as scheduling goes: the same output at any `max_num_seqs`, chunk, cache setting and
// pool size.
TEST(Transaction, TheOutputDoesNotDependOnBatchChunkCacheOrPreemption) {
  std::vector<std::vector<TokenId>> expected;
  for (const int max_num_seqs : {1, 2, 8, 32}) {
    for (const int chunk : {1, 32, 128}) {
      for (const bool cache : {false, true}) {
        for (const int blocks : {24, 400}) {
          EngineOptions options = AnyPromptLength(max_num_seqs);
          options.scheduler.prefill_chunk = chunk;
          options.scheduler.prefill_chunk_alone = chunk;
          options.scheduler.prefix_cache = cache;
          FakeModelOptions model;
          model.limits.kv_blocks = blocks;
          EngineHarness h(options, model);
          for (int i = 0; i < 50; ++i) {
            std::vector<TokenId> prompt = TestPrompt(i % 5, 40);
            const std::vector<TokenId> own = TestPrompt(i, i);
            prompt.insert(prompt.end(), own.begin(), own.end());
            h.MustSubmit(
                TestRequest(std::move(prompt), 30, i % 2 ? 0.7 : 0.0, static_cast<uint64_t>(i)));
          }
          ASSERT_TRUE(h.RunToEnd());
          std::vector<std::vector<TokenId>> outputs;
          for (size_t i = 0; i < h.size(); ++i) outputs.push_back(h.client(i).choices[0].tokens);
          if (expected.empty()) expected = outputs;
          EXPECT_EQ(outputs, expected) << max_num_seqs << " sequences, chunk " << chunk
                                       << ", cache " << cache << ", blocks " << blocks;
          EXPECT_THAT(h.runner().violations(), ::testing::IsEmpty());
        }
      }
    }
  }
}

TEST(Invariants, FindEachKindOfDamage) {
  EngineHarness h(AnyPromptLength(4));
  Fill(h, 6);
  h.RunUntil([&] { return h.runner().steps() > 10; });
  EngineSnapshot good;
  TakeSnapshot(h.engine().decoder_for_test(), &good);
  ASSERT_EQ(FindViolation(good), "");
  const auto damaged = [&](auto damage) {
    EngineSnapshot s = good;
    damage(s);
    return FindViolation(s);
  };
  const auto running = static_cast<size_t>(
      std::find_if(good.sequences.begin(), good.sequences.end(),
                   [](const auto& q) { return q.state == SequenceState::kRunning; }) -
      good.sequences.begin());
  EXPECT_NE(damaged([](auto& s) { --s.free; }), "");
  EXPECT_NE(damaged([](auto& s) { s.promised = 1; }), "");
  EXPECT_NE(damaged([](auto& s) { s.max_num_seqs = 1; }), "");
  EXPECT_NE(damaged([](auto& s) { ++s.references[static_cast<size_t>(s.table_blocks[0])]; }), "");
  EXPECT_NE(damaged([](auto& s) { s.table_generation_matches[0] = false; }), "");
  EXPECT_NE(
      damaged([&](auto& s) { s.sequences[running].computed = s.sequences[running].tokens + 1; }),
      "");
  EXPECT_NE(damaged([&](auto& s) { s.sequences[running].preemptions = 4; }), "");
  EXPECT_NE(damaged([&](auto& s) { s.sequences[running].overtaken = 17; }), "");
  EXPECT_NE(damaged([&](auto& s) { s.sequences[running].state = SequenceState::kFinished; }), "");
  EXPECT_NE(damaged([&](auto& s) { s.no_evict = true, s.preemptions = 1; }), "");
}

TEST(SequenceDeathTest, IllegalMovesAreNoticed) {
  Sequence s;
  s.SetState(SequenceState::kRunning);
  s.SetState(SequenceState::kFinished);
  EXPECT_DEATH(s.SetState(SequenceState::kRunning), "finished -> running");
}

}  // namespace
}  // namespace tutti::engine
