// The scheduler alone: it is pure, cheap, and allocates nothing in a steady step (rows N07 N15).
#include "engine/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/decoder_instance.h"
#include "engine/policy/admission.h"
#include "engine/policy/order.h"
#include "engine/policy/prefill_chunk.h"
#include "engine/testing/allocation_count.h"
#include "engine/testing/engine_harness.h"

namespace tutti::engine {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::EngineHarness;
using testing::FakeModelOptions;
using testing::TestPrompt;
using testing::TestRequest;

#ifndef TUTTI_SANITIZED
// N15: allocation counter +0 over 10,000 decode steps, from mailbox to events. The one thing that
// grows is the log of events itself, which takes a chunk for every 16: those are counted apart, and
// are as many as they must be.
void ExpectNoAllocations(const int kSteps, bool repeats_itself) {
  constexpr int kMaxNumSeqs = 4;
  testing::AllocationCount& count = testing::allocation_count;
  FakeModelOptions model;
  model.sample_rows = false;
  model.repeats_itself = repeats_itself;
  model.limits.kv_blocks = kMaxNumSeqs * 330;
  model.limits.context = 12'000;
  EngineOptions options;
  options.scheduler.max_num_seqs = kMaxNumSeqs;
  EngineHarness h(options, model);
  std::vector<api::Generation> live;
  for (int i = 0; i < kMaxNumSeqs; ++i) {
    Result<api::Generation> g =
        h.engine().Submit(TestRequest(TestPrompt(i, 10), 10'500, i % 2 ? 0.9 : 0.0), nullptr);
    ASSERT_TRUE(g.ok());
    live.push_back(*std::move(g));
  }
  size_t chunk_bytes = 0;
  {  // the size of a chunk of the log: what an empty stream allocates for its first one
    count.ignored_size = sizeof(api::TokenStream);
    count.armed = true;
    count.allocations = 0;
    static_assert(sizeof(api::StreamEvent) * 16 > 1024);
    api::TokenStream stream(nullptr);
    count.armed = false;
    ASSERT_EQ(count.allocations, 1u);
    chunk_bytes = (sizeof(api::StreamEvent) * 16 + sizeof(void*) + 7) / 8 * 8;
  }
  const auto step = [&] {
    ASSERT_TRUE(h.engine().RunOneStep());
    for (api::Generation& g : live) {
      while (const api::StreamEvent* e = g.Next()) g.Consumed(e->text.size());
    }
  };
  for (int i = 0; i < 100; ++i) step();  // the first steps size the buffers
  count.ignored_size = chunk_bytes;
  count.allocations = count.ignored = 0;
  const uint64_t before = h.engine().stats().output_tokens;
  count.armed = true;
  for (int i = 0; i < kSteps; ++i) step();
  count.armed = false;
  const EngineStats stats = h.engine().stats();
  const uint64_t tokens = stats.output_tokens - before;
  EXPECT_EQ(count.allocations, 0u);
  EXPECT_NEAR(static_cast<double>(count.ignored), static_cast<double>(tokens) / 16.0,
              repeats_itself ? kMaxNumSeqs : 0);  // each log grows on its own
  EXPECT_EQ(stats.accepted_tokens > 1000, repeats_itself);
  EXPECT_EQ(stats.running, kMaxNumSeqs);
}

TEST(SteadyStep, AllocatesNothingOver10000DecodeSteps) { ExpectNoAllocations(10'000, false); }
TEST(SteadyStep, AllocatesNothingOver2000StepsOfWhichMostHaveProposals) {
  ExpectNoAllocations(2000, true);
}
#endif

// A pass over 64 running sequences with 200 waiting takes less than 50 us. Real time: the best of
// many passes, and ten times the figure, so that a busy machine does not fail it; the figure itself
// is printed.
TEST(SteadyStep, ASchedulerPassOver64SequencesIsCheap) {
  FakeModelOptions model;
  model.limits.kv_blocks = 2048;
  model.limits.max_step_slices = 64;
  kv::KvBlockPool pool(8192);
  SchedulerOptions options;
  options.max_num_seqs = 64;
  Scheduler scheduler(options, model.limits, &pool);
  std::vector<std::unique_ptr<Request>> requests;
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<std::array<Sequence*, 1>> self(264);
  for (uint32_t i = 0; i < 264; ++i) {
    requests.push_back(
        std::make_unique<Request>(TestRequest(TestPrompt(static_cast<int>(i), 100), 2000)));
    auto s = std::make_unique<Sequence>();
    s->id = i;
    s->request = requests.back().get();
    s->prompt_tokens = 100;
    s->target_tokens = 2100;
    s->arrival = i;
    s->tokens.reserve(2100);
    s->tokens = requests.back()->prompt;
    s->sampler.params = &s->request->sampling;
    self[i][0] = s.get();
    s->siblings = self[i];
    scheduler.Add(*s, false);
    sequences.push_back(std::move(s));
  }
  TimePoint now{std::chrono::seconds(1)};
  StepResult result;
  const auto pass = [&] {
    const StepPlan& plan = scheduler.Plan(now);
    result.slices.resize(plan.slices.size());
    for (size_t i = 0; i < plan.slices.size(); ++i) {
      result.slices[i].token = plan.slices[i].sample ? 5 : kNoToken;
    }
    scheduler.Commit(result, now);
  };
  for (int i = 0; i < 1000 && scheduler.running() < 64; ++i) pass();
  for (int i = 0; i < 100; ++i) pass();
  ASSERT_EQ(scheduler.running(), 64);
  ASSERT_EQ(scheduler.waiting(), 200);
  Duration best = Duration::max();
  for (int i = 0; i < 300; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    pass();
    best = std::min<Duration>(best, std::chrono::steady_clock::now() - begin);
  }
  std::printf("scheduler pass over 64 running, 200 waiting: %.1f us\n", ToMillis(best) * 1000);
  EXPECT_LT(best, microseconds(500));
  for (auto& s : sequences) scheduler.Finish(*s, false);
  EXPECT_EQ(pool.active(), 0);
}

// The same calls give the same plans: the scheduler does not depend on time, addresses or chance.
TEST(Scheduler, APlanThatIsDroppedLeavesNoTrace) {
  FakeModelOptions model;
  kv::KvBlockPool pool(64);
  Scheduler scheduler({}, model.limits, &pool);
  const Request request = TestRequest(TestPrompt(1, 100), 10);
  Sequence s;
  std::array<Sequence*, 1> self = {&s};
  s.request = &request;
  s.prompt_tokens = 100;
  s.target_tokens = 110;
  s.tokens.reserve(110);
  s.tokens = request.prompt;
  s.sampler.params = &request.sampling;
  s.siblings = self;
  scheduler.Add(s, false);
  const TimePoint now{std::chrono::seconds(1)};
  for (int i = 0; i < 5; ++i) {
    const StepPlan& plan = scheduler.Plan(now);
    ASSERT_EQ(plan.slices.size(), 1u);
    EXPECT_EQ(plan.slices[0].start, 0);
    EXPECT_EQ(plan.slices[0].tokens.size(), 100u);
    EXPECT_EQ(pool.active(), 4);
    EXPECT_EQ(s.computed, 0);
  }
  StepResult result;
  result.slices.resize(1);
  result.slices[0].token = 9;
  const auto outcomes = scheduler.Commit(result, now);
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].token, 9);
  EXPECT_EQ(s.computed, 100);
  scheduler.Finish(s, false);
  EXPECT_EQ(pool.active(), 0);
}

// A suspect preempts the sequence behind it and still gets no block, because that one held only
// blocks that the suspect shares. The suspect must not plan a slice for the sequence that it
// preempted: pinned by now, that sequence would take the suspect's blocks in turn, and be in the
// plan while it waits.
TEST(Scheduler, ASuspectThatPreemptsInVainPlansNothingForTheOneItPreempted) {
  FakeModelOptions model;
  kv::KvBlockPool pool(16);
  SchedulerOptions options;
  options.max_preemptions = 1;
  Scheduler scheduler(options, model.limits, &pool);
  const Request request = TestRequest(TestPrompt(1, 2 * kBlockTokens), 10);
  Sequence s[2];
  const std::array<Sequence*, 2> both = {&s[0], &s[1]};
  for (int i = 0; i < 2; ++i) {
    s[i].id = static_cast<uint32_t>(i);
    s[i].choice = i;
    s[i].request = &request;
    s[i].prompt_tokens = 2 * kBlockTokens;
    s[i].target_tokens = s[i].prompt_tokens + 10;
    s[i].tokens = request.prompt;
    s[i].sampler.params = &request.sampling;
    s[i].siblings = both;
    scheduler.Add(s[i], false);
  }
  const TimePoint now{std::chrono::seconds(1)};
  const auto step = [&](Status status, TokenId token) {
    StepResult result;
    result.status = std::move(status);
    result.slices.resize(scheduler.Plan(now).slices.size());
    for (SliceResult& slice : result.slices) slice.token = token;
    const auto outcomes = scheduler.Commit(result, now);
    return std::vector<Outcome>(outcomes.begin(), outcomes.end());
  };
  step(OkStatus(), 5);
  ASSERT_EQ(s[0].state(), SequenceState::kRunning);
  // Both are in a step that breaks: what the second had for itself goes back, what it shares stays.
  while (s[1].planned_in == 0) step(Internal("the device refused the step"), 5);
  ASSERT_TRUE(s[0].suspect && s[1].suspect);
  ASSERT_EQ(s[1].state(), SequenceState::kRunning);
  kv::BlockTable rest;  // takes all free blocks, and the first sequence needs one more
  Result<kv::KvReservation> all = pool.Reserve(rest, pool.available(), 99);
  ASSERT_TRUE(all.ok());
  all->Commit();

  const StepPlan& plan = scheduler.Plan(now);
  for (const SequenceSlice& slice : plan.slices) {
    EXPECT_EQ(s[slice.sequence].state(), SequenceState::kRunning) << slice.sequence;
  }
  StepResult none;
  none.slices.resize(plan.slices.size());
  scheduler.Commit(none, now);
  pool.Release(rest);
  for (Sequence& each : s) scheduler.Finish(each, false);
  EXPECT_EQ(pool.active(), 0);
}

// A row that gives no token may be the first sign of broken values: what it computed is not entered
// into the prefix index, where others would build on it.
TEST(Scheduler, WhatARowWithoutAValidTokenComputedIsNotShared) {
  FakeModelOptions model;
  for (const bool not_finite : {false, true}) {
    kv::KvBlockPool pool(16);
    Scheduler scheduler({}, model.limits, &pool);
    const Request request = TestRequest(TestPrompt(1, 2 * kBlockTokens), 10);
    Sequence s;
    const std::array<Sequence*, 1> self = {&s};
    s.request = &request;
    s.prompt_tokens = 2 * kBlockTokens;
    s.target_tokens = s.prompt_tokens + 10;
    s.tokens = request.prompt;
    s.sampler.params = &request.sampling;
    s.siblings = self;
    scheduler.Add(s, false);
    const TimePoint now{std::chrono::seconds(1)};
    ASSERT_EQ(scheduler.Plan(now).slices.size(), 1u);
    StepResult result;
    result.slices.resize(1);
    result.slices[0].token = not_finite ? 3 : model.limits.vocab_size;
    if (not_finite) {
      result.slices[0].logprobs.emplace();
      result.slices[0].logprobs->chosen.logprob = std::nanf("");
    }
    const auto outcomes = scheduler.Commit(result, now);
    ASSERT_EQ(outcomes.size(), 1u);
    EXPECT_EQ(outcomes[0].kind, Outcome::Kind::kFailed);
    scheduler.Finish(s, /*keep_tail_for_reuse=*/false);
    EXPECT_EQ(pool.cached(), 0);
    EXPECT_EQ(pool.free(), pool.total());
  }
}

TEST(Policy, TheChunkShrinksUntilTheStepMeetsItsTarget) {
  ChunkInputs in;
  in.longest_chunk = 128;
  in.itl_target = milliseconds(50);
  EXPECT_EQ(PrefillChunk(in), 128);  // no sequence decodes
  in.decode_rows = 8;
  EXPECT_EQ(PrefillChunk(in), kFirstChunk);  // cost unknown
  in.decode_time = milliseconds(5);
  in.per_token = microseconds(400);
  EXPECT_EQ(PrefillChunk(in), 96);  // (45 - 5) / 0.4 = 100, in whole tiles
  in.per_token = microseconds(100);
  EXPECT_EQ(PrefillChunk(in), 128);
  in.per_token = milliseconds(20);
  EXPECT_EQ(PrefillChunk(in), kSmallestChunk);  // always advances
  in.decode_time = milliseconds(100);  // decoding alone misses the target: half as much again
  in.per_token = milliseconds(1);
  EXPECT_EQ(PrefillChunk(in), 48);
}

TEST(Policy, UnderContentionTheChunkMeetsAShorterTarget) {
  ChunkInputs in;
  in.longest_chunk = 512;
  in.itl_target = milliseconds(50);
  in.step_limit = milliseconds(20);
  EXPECT_EQ(PrefillChunk(in), kFirstChunk);  // cost unknown
  in.per_token = microseconds(400);
  EXPECT_EQ(PrefillChunk(in), 40);  // 18 / 0.4 = 45, in whole tiles
  in.decode_rows = 8;
  in.decode_time = milliseconds(10);
  EXPECT_EQ(PrefillChunk(in), 16);
  in.decode_time = milliseconds(60);  // decoding alone takes longer
  EXPECT_EQ(PrefillChunk(in), 72);
}

TEST(Policy, TheOldestPromptKeepsHalfAndTheShortestComeNext) {
  const auto shares = [](int budget, std::vector<int> wanted, int waiting) {
    ShareChunk(budget, wanted, waiting);
    return wanted;
  };
  using Shares = std::vector<int>;
  EXPECT_EQ(shares(512, {}, 20), Shares());
  EXPECT_EQ(shares(512, {5000}, 0), Shares({512}));
  EXPECT_EQ(shares(512, {5000}, 100), Shares({412})) << "what the others cannot use";
  EXPECT_EQ(shares(512, {5000}, 5000), Shares({256}));
  EXPECT_EQ(shares(1, {5000}, 5000), Shares({1}));
  EXPECT_EQ(shares(128, {10, 5000}, 0), Shares({10, 118}));
  // The second of two long prompts left nothing to a short one that waited.
  EXPECT_EQ(shares(128, {5000, 5000}, 20), Shares({64, 44}));
  EXPECT_EQ(shares(128, {5000, 5000, 30, 5000, 8}, 20), Shares({64, 6, 30, 0, 8}));
  EXPECT_EQ(shares(128, {5000, 60, 50}, 300), Shares({64, 14, 50}));
}

TEST(Policy, StepCostLearnsFromDecodeAndMixedSteps) {
  StepCost cost;
  EXPECT_EQ(cost.Decode(4), Duration(0));
  cost.Observe(8, 0, milliseconds(10));
  EXPECT_EQ(cost.Decode(4), milliseconds(10));  // the nearest it knows
  cost.Observe(8, 100, milliseconds(50));
  EXPECT_EQ(cost.PerPrefillToken(), microseconds(400));
  for (int i = 0; i < 100; ++i) cost.Observe(8, 100, milliseconds(30));
  EXPECT_NEAR(ToMillis(cost.PerPrefillToken()), 0.2, 0.01);
  cost.Observe(8, 0, std::chrono::seconds(10));  // one hiccup counts as twice the average
  EXPECT_LE(cost.Decode(8), milliseconds(12));
}

TEST(Policy, AdmissionCountsNewRevivedAndOutstandingBlocks) {
  AdmissionView v;
  v.available = 10;
  v.new_blocks = 4;
  v.worst_blocks = 9;
  v.revived = 1;
  EXPECT_LE(BlocksToAdmit(v), SlackFor(v));
  v.outstanding = 5;
  EXPECT_LE(BlocksToAdmit(v), SlackFor(v));
  v.growing = 1;
  EXPECT_GT(BlocksToAdmit(v), SlackFor(v));
  v = {.available = 10,
       .new_blocks = 4,
       .worst_blocks = 9,
       .revived = 2,
       .outstanding = 0,
       .growing = 8,
       .reserve_worst = true};
  EXPECT_GT(BlocksToAdmit(v), SlackFor(v));
  v.revived = 1;
  EXPECT_LE(BlocksToAdmit(v), SlackFor(v));
}

TEST(Policy, WaitingLiftsAClassAtATime) {
  using std::chrono::seconds;
  EXPECT_EQ(EffectiveClass(api::Priority::kBatch, seconds(0), seconds(10)), 2);
  EXPECT_EQ(EffectiveClass(api::Priority::kBatch, seconds(10), seconds(10)), 1);
  EXPECT_EQ(EffectiveClass(api::Priority::kBatch, seconds(1000), seconds(10)), 0);
  EXPECT_EQ(EffectiveClass(api::Priority::kInteractive, seconds(1000), seconds(10)), 0);
}

TEST(Policy, TheWaitEstimateCountsWhatRuns) {
  using std::chrono::seconds;
  EXPECT_EQ(PredictWait(3, 8, seconds(10)), Duration(0));
  EXPECT_EQ(PredictWait(8, 8, seconds(8)), seconds(1));
  EXPECT_EQ(PredictWait(23, 8, seconds(8)), seconds(16));
  EXPECT_EQ(RetryAfter(Duration(0), 0), seconds(1));
  EXPECT_EQ(RetryAfter(seconds(1000), 7), seconds(60));
  EXPECT_GE(RetryAfter(seconds(20), 255), seconds(20));
  EXPECT_LE(RetryAfter(seconds(20), 255), seconds(25));
}

}  // namespace
}  // namespace tutti::engine
