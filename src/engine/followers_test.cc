// Row R26: a request whose prompt begins as one that is being computed waits for it.
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

EngineOptions Following(int max_num_seqs, Duration follow = std::chrono::seconds(10)) {
  EngineOptions options;
  options.scheduler.max_num_seqs = max_num_seqs;
  options.scheduler.follow = follow;
  options.queue.prompt_tokens_per_kv_token = 1e6;
  return options;
}

FakeModelOptions Blocks(int blocks) {
  FakeModelOptions model;
  model.limits.kv_blocks = blocks;
  return model;
}

// Ten requests whose prompts begin with the same `common` tokens, each with 20 tokens of its own.
void SubmitTen(EngineHarness& h, int common) {
  for (int i = 0; i < 10; ++i) {
    Request request = TestRequest(TextOf(TestPrompt(1, common), TestPrompt(50 + i, 20)), 4);
    request.id = std::to_string(i);
    h.MustSubmit(std::move(request));
  }
}

// What the model computed for `common` tokens `times` over, and for all else of the ten.
uint64_t Computed(int common, int times) {
  return static_cast<uint64_t>(common * times + 10 * (20 + 3));
}

TEST(Followers, ACommonBeginningIsComputedOnce) {
  EngineHarness alone(Following(16), Blocks(1024));
  alone.MustSubmit(TestRequest(TextOf(TestPrompt(1, 2048), TestPrompt(50, 20)), 4));
  ASSERT_TRUE(alone.RunToEnd());
  EngineHarness h(Following(16), Blocks(1024));
  SubmitTen(h, 2048);
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(h.runner().tokens_computed(), Computed(2048, 1));
  Duration last{0};
  for (size_t i = 0; i < h.size(); ++i) {
    EXPECT_EQ(h.client(i).usage.cached_tokens, i == 0 ? 0 : 2048);
    last = std::max(last, h.client(i).first_token());
  }
  EXPECT_LE(ToMillis(last), 1.3 * ToMillis(alone.client(0).first_token()));
  EXPECT_EQ(h.FindFault(), "");
}

TEST(Followers, WithoutWaitingItIsComputedMoreThanOnce) {
  EngineHarness h(Following(16, Duration::zero()), Blocks(1024));
  SubmitTen(h, 2048);
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_GT(h.runner().tokens_computed(), Computed(2048, 1) + 1000);
  EXPECT_EQ(h.FindFault(), "");
}

TEST(Followers, WindowBlocksAndRecurrentStatesAreFoundToo) {
  for (const bool recurrent : {false, true}) {
    FakeModelOptions model = Blocks(1024);
    if (recurrent) {
      model.limits.state_slots = 64;
    } else {
      model.limits.window = 100;
      model.limits.window_blocks = 512;
    }
    EngineHarness h(Following(16), model);
    SubmitTen(h, 1500);  // 46 whole blocks
    ASSERT_TRUE(h.RunToEnd());
    const int shared = 1500 / kBlockTokens * kBlockTokens;
    EXPECT_LE(h.runner().tokens_computed(), Computed(shared, 1) + 10 * (1500 - shared))
        << recurrent;
    for (size_t i = 1; i < h.size(); ++i) EXPECT_GE(h.client(i).usage.cached_tokens, shared);
    EXPECT_EQ(h.FindFault(), "");
  }
}

TEST(Followers, ALeaderThatIsCancelledHandsOver) {
  EngineHarness h(Following(16), Blocks(1024));
  SubmitTen(h, 2048);
  ASSERT_TRUE(h.RunUntil([&] { return h.runner().tokens_computed() > 0; }));
  const uint64_t lost = h.runner().tokens_computed();
  h.client(0).generation.Cancel();
  ASSERT_TRUE(h.RunToEnd());
  // Its whole blocks stay, and the next one goes on behind them.
  EXPECT_LE(h.runner().tokens_computed(), lost + Computed(2048, 1));
  for (size_t i = 1; i < h.size(); ++i) {
    EXPECT_TRUE(h.client(i).status().ok());
    EXPECT_EQ(h.client(i).choices[0].tokens, h.Solo(h.client(i).request)) << i;
  }
}

TEST(Followers, WaitNoLongerThanTheyAreTo) {
  EngineHarness h(Following(16, std::chrono::milliseconds(1)), Blocks(2048));
  SubmitTen(h, 4000);
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_GT(h.runner().tokens_computed(), Computed(4000, 1));
  EXPECT_EQ(h.FindFault(), "");
}

TEST(Followers, DoNotWaitForLessUrgentWork) {
  EngineHarness h(Following(16), Blocks(1024));
  Request batch = TestRequest(TextOf(TestPrompt(1, 4000), TestPrompt(50, 20)), 4);
  batch.priority = api::Priority::kBatch;
  h.MustSubmit(std::move(batch));
  ASSERT_TRUE(h.RunUntil([&] { return h.runner().tokens_computed() > 0; }));
  h.MustSubmit(TestRequest(TextOf(TestPrompt(1, 4000), TestPrompt(51, 20)), 4));
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_LT(h.client(1).usage.cached_tokens, 4000);
  EXPECT_LT(h.client(1).ended_at, h.client(0).ended_at);
  EXPECT_EQ(h.FindFault(), "");
}

TEST(Followers, DoNotWaitForOthersWithWhomTheyShareNothing) {
  for (const bool by_salt : {false, true}) {
    EngineHarness h(Following(16), Blocks(1024));
    for (int i = 0; i < 2; ++i) {
      Request request = TestRequest(TestPrompt(by_salt ? 1 : i, 2048), 4);
      if (by_salt) request.cache_salt = std::to_string(i);
      h.MustSubmit(std::move(request));
    }
    ASSERT_TRUE(h.RunUntil([&] { return h.engine().stats().running == 2; }));
    ASSERT_TRUE(h.RunToEnd());
    EXPECT_EQ(h.FindFault(), "");
  }
}

// Prompts that differ after a while: only what they share is waited for.
TEST(Followers, StartWhereTheirOwnPromptBegins) {
  EngineHarness h(Following(16), Blocks(1024));
  h.MustSubmit(TestRequest(TextOf(TestPrompt(1, 1024), TestPrompt(2, 3000)), 4));
  h.MustSubmit(TestRequest(TextOf(TestPrompt(1, 1024), TestPrompt(3, 30)), 4));
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(h.client(1).usage.cached_tokens, 1024);
  EXPECT_LT(h.client(1).ended_at, h.client(0).choices[0].times.front());
  EXPECT_EQ(h.FindFault(), "");
}

FakeModelOptions LongContext() {
  FakeModelOptions model = Blocks(4096);
  model.limits.context = 40'000;
  model.sample_rows = false;
  return model;
}

// A sequence that waited for a leader at the head of the queue kept all others from preempting.
TEST(Followers, KeepNobodyFromPreempting) {
  EngineHarness h(Following(4), LongContext());
  for (int i = 0; i < 3; ++i) {
    Request batch = TestRequest(TestPrompt(900 + i, 16), 3000);
    batch.priority = api::Priority::kBatch;
    h.MustSubmit(std::move(batch));
  }
  ASSERT_TRUE(h.RunUntil([&] { return h.client(2).choices[0].tokens.size() > 5; }));
  h.MustSubmit(TestRequest(TextOf(TestPrompt(1, 20'000), TestPrompt(50, 20)), 2));
  ASSERT_TRUE(h.RunUntil([&] { return h.engine().stats().running == 4; }));
  h.MustSubmit(TestRequest(TextOf(TestPrompt(1, 20'000), TestPrompt(51, 20)), 2));
  h.MustSubmit(TestRequest(TestPrompt(7, 40), 2));
  ASSERT_TRUE(h.RunUntil([&] { return h.client(5).done(); }));
  EXPECT_EQ(h.client(3).choices[0].tokens.size(), 0u) << "the leader is not done";
  EXPECT_EQ(h.engine().stats().preemptions, 1u);
}

// The share of a step's chunk that waiting prompts leave free was kept for followers, too.
TEST(Followers, TakeNothingFromTheirLeadersChunk) {
  const auto steps = [](int followers) {
    EngineHarness h(Following(16), LongContext());
    int count = 0;
    h.runner().fault = [&](const StepPlan&, const SequenceSlice* slice) {
      count += slice == nullptr ? 1 : 0;
      return OkStatus();
    };
    for (int i = 0; i <= followers; ++i)
      h.MustSubmit(TestRequest(TextOf(TestPrompt(1, 8000), TestPrompt(50 + i, 20)), 2));
    EXPECT_TRUE(h.RunUntil([&] { return !h.client(0).choices[0].tokens.empty(); }));
    return count;
  };
  EXPECT_LE(steps(9), steps(0) + 1);
}

// Scored prompts are computed in full, whatever the prefix index has.
TEST(Followers, DoNotWaitForWhatIsCached) {
  EngineHarness h(Following(16), LongContext());
  h.MustSubmit(TestRequest(TextOf(TestPrompt(1, 8000), TestPrompt(2, 20)), 2));
  ASSERT_TRUE(h.RunToEnd());
  Request scored = TestRequest(TextOf(TestPrompt(1, 8000), TestPrompt(3, 20)), 2);
  scored.sampling.prompt_logprobs = 0;
  const uint64_t before = h.runner().tokens_computed();
  h.MustSubmit(std::move(scored));
  ASSERT_TRUE(h.RunUntil([&] { return h.runner().tokens_computed() > before; }));
  ASSERT_FALSE(h.client(1).done());
  h.MustSubmit(TestRequest(TextOf(TestPrompt(1, 8000), TestPrompt(4, 20)), 2));
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(h.client(2).usage.cached_tokens, 8000);
  EXPECT_LT(h.client(2).ended_at, h.client(1).choices[0].times.front());
}

// With recurrent states the wait once ended before the checkpoint that it was for.
TEST(Followers, WaitForTheCheckpointOfARecurrentLeader) {
  FakeModelOptions model = LongContext();
  model.limits.state_slots = 64;
  EngineHarness h(Following(16), model);
  for (int i = 0; i < 4; ++i) h.MustSubmit(TestRequest(TestPrompt(900 + i, 16), 1000));
  ASSERT_TRUE(h.RunUntil([&] { return h.client(3).choices[0].tokens.size() > 20; }));
  for (int i = 0; i < 10; ++i)
    h.MustSubmit(TestRequest(TextOf(TestPrompt(1, 1500), TestPrompt(50 + i, 20)), 2));
  ASSERT_TRUE(h.RunToEnd());
  for (size_t i = 5; i < h.size(); ++i) EXPECT_EQ(h.client(i).usage.cached_tokens, 1472) << i;
  EXPECT_EQ(h.FindFault(), "");
}

// The queue's limit of age ended a request that only waited for another.
TEST(Followers, AreNotEndedByTheirAgeInTheQueue) {
  EngineOptions options = Following(16);
  options.queue.age = std::chrono::seconds(5);
  EngineHarness h(options, LongContext());
  for (int i = 0; i < 2; ++i)
    h.MustSubmit(TestRequest(TextOf(TestPrompt(1, 20'000), TestPrompt(50 + i, 20)), 2));
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_GT(ToMillis(h.client(0).ended_at - h.client(0).sent), 5000);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(h.client(i).status().ok()) << h.client(i).status();
}

}  // namespace
}  // namespace tutti::engine
