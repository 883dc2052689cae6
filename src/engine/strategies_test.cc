// Rows U63 U64 U65 U66 U71 U72 U22 on the timing device: order, overlap, fairness and equal outputs
// under the four strategies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "base/random.h"
#include "engine/decoder_instance.h"
#include "engine/testing/engine_harness.h"

namespace tutti::engine {
namespace {

using testing::EngineHarness;
using testing::FakeModelOptions;
using testing::Gaps;
using testing::HarnessClient;
using testing::Percentile;
using testing::TestPrompt;
using testing::TestRequest;
using testing::TimingModel;

constexpr Strategy kAll[] = {Strategy::kContinuous, Strategy::kInterleaved, Strategy::kBlocking,
                             Strategy::kStatic};

EngineOptions With(Strategy strategy, int max_num_seqs = 8) {
  EngineOptions options;
  options.scheduler.strategy = strategy;
  options.scheduler.max_num_seqs = max_num_seqs;
  return options;
}

void ExpectSoloIfServed(EngineHarness& h) {
  for (size_t i = 0; i < h.size(); ++i) {
    HarnessClient& c = h.client(i);
    ASSERT_TRUE(c.done());
    if (!c.status().ok()) continue;
    for (int k = 0; k < c.request.n; ++k)
      EXPECT_EQ(c.choices[static_cast<size_t>(k)].tokens, h.Solo(c.request, k)) << i;
  }
  EXPECT_THAT(h.runner().violations(), ::testing::IsEmpty());
  EXPECT_EQ(h.engine().decoder_for_test().pool().active(), 0);
}

// U63: 20 prompts, greedy and seeded, give identical text under all strategies.
TEST(Strategies, TheSameTextUnderEveryStrategy) {
  std::vector<std::string> first;
  for (const Strategy strategy : kAll) {
    EngineHarness h(With(strategy));
    for (int i = 0; i < 20; ++i)
      h.MustSubmit(TestRequest(TestPrompt(i, 5 + 7 * i), 30, i % 2 == 0 ? 0.0 : 0.8, 100 + i));
    ASSERT_TRUE(h.RunToEnd());
    ExpectSoloIfServed(h);
    std::vector<std::string> texts;
    for (size_t i = 0; i < h.size(); ++i) texts.push_back(h.client(i).choices[0].text);
    if (first.empty()) first = texts;
    EXPECT_EQ(texts, first);
  }
}

// U64: 3 distinct prompts concurrently equal their solo outputs, 500 runs under each strategy; the
// request after a cancelled one is unaffected.
TEST(Strategies, ThreeAtOnceEqualSolo500TimesEachAlsoAfterACancelledOne) {
  Random random(3);
  for (const Strategy strategy : kAll) {
    EngineHarness h(With(strategy));
    for (int run = 0; run < 500; ++run) {
      const size_t before = h.size();
      for (int k = 0; k < 3; ++k) {
        h.MustSubmit(TestRequest(TestPrompt(run * 3 + k, 1 + static_cast<int>(random.Below(60))),
                                 1 + static_cast<int>(random.Below(20)),
                                 random.Chance(0.5) ? 0.0 : 1.0, random.Next() >> 1));
      }
      if (run % 5 == 0) {  // one is cancelled on the way, and another comes after it
        HarnessClient& victim = h.client(before + 1);
        h.RunUntil([&] { return victim.done() || !victim.choices[0].tokens.empty(); });
        victim.generation.Cancel();
        h.MustSubmit(TestRequest(TestPrompt(run, 33), 12, 0.9, 5));
      }
      ASSERT_TRUE(h.RunToEnd());
    }
    ExpectSoloIfServed(h);
  }
}

// U65: no stream gets 2 tokens while another active one gets 0 (interleaved); no gap exceeds 2 x
// the median step (continuous).
TEST(Strategies, TokensOfConcurrentRequestsInterleave) {
  {
    EngineHarness h(With(Strategy::kInterleaved));
    for (int i = 0; i < 3; ++i) h.MustSubmit(TestRequest(TestPrompt(i, 10), 50));
    while (h.RunOnce()) {
      std::vector<size_t> now;
      for (size_t i = 0; i < 3; ++i) now.push_back(h.client(i).choices[0].tokens.size());
      if (*std::min_element(now.begin(), now.end()) == 0) continue;  // not all active yet
      const auto [low, high] = std::minmax_element(now.begin(), now.end());
      const bool all_active = !h.client(0).done() && !h.client(1).done() && !h.client(2).done();
      EXPECT_LE(all_active ? *high - *low : 0, 1u);
    }
    ExpectSoloIfServed(h);
  }
  EngineHarness h(With(Strategy::kContinuous));
  for (int i = 0; i < 3; ++i) h.MustSubmit(TestRequest(TestPrompt(i, 10), 50));
  ASSERT_TRUE(h.RunToEnd());
  for (size_t i = 0; i < 3; ++i) {
    const auto gaps = Gaps(h.client(i).choices[0]);
    EXPECT_LE(Percentile(gaps, 1.0), 2 * Percentile(gaps, 0.5));
  }
}

// U66: TTFT of the third request <= 0.2 x blocking; total time interleaved / blocking lies in
// 0.9-1.1.
TEST(Strategies, InterleavingBuysEarlyFirstTokensNotThroughput) {
  const auto run = [](Strategy strategy, Duration* ttft) {
    EngineHarness h(With(strategy));
    for (int i = 0; i < 3; ++i) h.MustSubmit(TestRequest(TestPrompt(i, 12), 50));
    EXPECT_TRUE(h.RunToEnd());
    *ttft = h.client(2).first_token();
    return h.now();
  };
  Duration blocking_ttft, interleaved_ttft;
  const Duration blocking = run(Strategy::kBlocking, &blocking_ttft);
  const Duration interleaved = run(Strategy::kInterleaved, &interleaved_ttft);
  std::printf("3 x 50: total interleaved / blocking = %.3f, third TTFT %.1f / %.1f ms\n",
              ToSeconds(interleaved) / ToSeconds(blocking), ToMillis(interleaved_ttft),
              ToMillis(blocking_ttft));
  EXPECT_LE(interleaved_ttft * 5, blocking_ttft);
  EXPECT_NEAR(ToSeconds(interleaved) / ToSeconds(blocking), 1.0, 0.1);
}

TEST(Strategies, BlockingRunsOneRequestToItsEndBeforeTheNext) {
  EngineHarness h(With(Strategy::kBlocking));
  for (int i = 0; i < 4; ++i) h.MustSubmit(TestRequest(TestPrompt(i, 20), 10));
  ASSERT_TRUE(h.RunToEnd());
  for (size_t i = 1; i < 4; ++i)
    EXPECT_GE(h.client(i).choices[0].times.front(), h.client(i - 1).ended_at);
}

// U71: prompts of 1..200 tokens in one batch equal their solo outputs; a finished row adds no
// token, no row of work and no KV. (The last is checked on the plans: rows of a step = sequences
// still running.)
TEST(Strategies, AStaticBatchOfMixedLengthsDoesNoWorkForFinishedRows) {
  EngineOptions options = With(Strategy::kStatic, 200);
  options.scheduler.static_batch = 200;
  options.scheduler.prefix_cache = false;
  options.scheduler.speculate = false;  // rows of draft tokens are computed too
  FakeModelOptions model;
  model.limits.kv_blocks = 2000;
  model.limits.max_step_slices = 256;
  EngineHarness h(options, model);
  int expected_tokens = 0;
  for (int i = 0; i < 200; ++i) {
    h.MustSubmit(TestRequest(TestPrompt(i, 1 + i), 1 + i % 20));
    expected_tokens += 1 + i + i % 20;  // the prompt, and each drawn token but the last is computed
  }
  int64_t max_slots = 0;
  h.runner().fault = [&](const StepPlan& plan, const SequenceSlice* slice) {
    if (slice != nullptr) return OkStatus();
    int64_t live = 0, slots = 0;
    for (const auto& work : h.engine().decoder_for_test().works()) {
      live += work->live_choices;
      slots += work->sequences[0]->blocks.size() * kBlockTokens;
    }
    EXPECT_LE(static_cast<int64_t>(plan.slices.size()), live);
    max_slots = std::max(max_slots, slots);
    return OkStatus();
  };
  ASSERT_TRUE(h.RunToEnd());
  ExpectSoloIfServed(h);
  EXPECT_EQ(h.runner().tokens_computed(),
            static_cast<uint64_t>(expected_tokens));  // no padding anywhere
}

TEST(Strategies, AStaticBatchStartsWhenFullOrWhenItsTimeIsUp) {
  EngineOptions options = With(Strategy::kStatic);
  options.scheduler.static_batch = 4;
  EngineHarness h(options);
  h.MustSubmit(TestRequest(TestPrompt(0, 8), 5));
  h.At(std::chrono::milliseconds(6), [&] { h.MustSubmit(TestRequest(TestPrompt(1, 8), 9)); });
  h.At(std::chrono::milliseconds(30),
       [&] { h.MustSubmit(TestRequest(TestPrompt(2, 8), 9)); });  // during the batch
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(h.client(0).timings.queue, std::chrono::milliseconds(10));
  EXPECT_EQ(h.client(1).timings.queue, std::chrono::milliseconds(4));
  EXPECT_GE(h.client(2).choices[0].times.front(), h.client(1).ended_at);
  ExpectSoloIfServed(h);

  EngineHarness full(options);
  for (int i = 0; i < 4; ++i) full.MustSubmit(TestRequest(TestPrompt(i, 8), 5));
  ASSERT_TRUE(full.RunToEnd());
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(full.client(i).timings.queue, Duration(0));
}

// U72: joins at 0/80/160/240 ms enter within one step; finished ones leave in the same step;
// admission order = arrival order; 0 idle gaps over 1 ms with work queued.
TEST(Strategies, ContinuousBatchingLetsRequestsJoinAndLeaveAtEveryStep) {
  EngineHarness h(With(Strategy::kContinuous));
  Duration longest_step{0};
  for (int i = 0; i < 4; ++i) {
    h.At(std::chrono::milliseconds(80 * i),
         [&h, i] { h.MustSubmit(TestRequest(TestPrompt(i, 16), 60)); });
  }
  TimePoint before = h.clock().Now();
  std::vector<TimePoint> ended(4, TimePoint::max());
  while (h.RunOnce()) {
    const TimePoint now = h.clock().Now();
    longest_step = std::max(longest_step, now - before);
    before = now;
    // A request that ended holds no resources after the step in which it ended.
    const EngineStats stats = h.engine().stats();
    int live = 0;
    for (size_t i = 0; i < h.size(); ++i) live += h.client(i).done() ? 0 : 1;
    EXPECT_LE(stats.running, live);
  }
  ASSERT_EQ(h.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_LE(h.client(i).timings.queue, longest_step) << i;
  EXPECT_LE(h.longest_idle_gap(), std::chrono::milliseconds(1));
  ExpectSoloIfServed(h);
}

TEST(Strategies, AdmissionOrderIsArrivalOrder) {
  EngineHarness h(With(Strategy::kContinuous, 2));
  Random random(5);
  for (int i = 0; i < 40; ++i) {
    h.At(std::chrono::milliseconds(random.Below(300)), [&h, &random, i] {
      h.MustSubmit(TestRequest(TestPrompt(i, 1 + static_cast<int>(random.Below(40))),
                               1 + static_cast<int>(random.Below(12))));
    });
  }
  ASSERT_TRUE(h.RunToEnd());
  for (size_t i = 1; i < h.size(); ++i) {
    EXPECT_GE(h.client(i).sent + h.client(i).timings.queue,
              h.client(i - 1).sent + h.client(i - 1).timings.queue);
  }
  EXPECT_LE(h.longest_idle_gap(), std::chrono::milliseconds(1));
}

// U22: 3 s jobs: 8 overlap; the 9th starts only when one ends, and its true wait is in its reply.
TEST(Strategies, EightJobsOverlapAndTheNinthWaits) {
  TimingModel timing;
  timing.base = std::chrono::milliseconds(30);
  timing.per_decode_row = timing.per_prefill_token = Duration(0);
  FakeModelOptions model;
  model.limits.kv_blocks = 512;
  EngineHarness h({}, model, timing);
  for (int i = 0; i < 9; ++i)
    h.MustSubmit(TestRequest(TestPrompt(i, 4), 100));  // 100 steps of 30 ms
  int most = 0;
  while (h.RunOnce()) most = std::max(most, h.engine().stats().running);
  EXPECT_EQ(most, 8);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(h.client(i).timings.queue, Duration(0));
  EXPECT_EQ(h.client(8).timings.queue, std::chrono::seconds(3));
  EXPECT_EQ(h.client(8).ended_at - h.start(), std::chrono::seconds(6));
  ExpectSoloIfServed(h);
}

// U22: 1,000 jobs with random lengths never exceed the KV pool, at any `max_num_seqs`.
TEST(Strategies, AThousandJobsOfRandomLengthNeverExceedThePool) {
  EngineOptions options = With(Strategy::kContinuous, 64);
  options.queue.requests = 2000;
  options.queue.age = Duration::max();
  options.queue.prompt_tokens_per_kv_token = 1e6;
  FakeModelOptions model;
  model.limits.kv_blocks = 40;
  EngineHarness h(options, model);
  Random random(9);
  for (int i = 0; i < 1000; ++i) {
    h.MustSubmit(TestRequest(TestPrompt(i, 1 + static_cast<int>(random.Below(300))),
                             1 + static_cast<int>(random.Below(60))));
  }
  while (h.RunOnce()) {
    const EngineStats s = h.engine().stats();
    ASSERT_LE(s.kv_blocks_active + s.kv_blocks_cached + s.kv_blocks_free, 40);
    ASSERT_GE(s.kv_blocks_free, 0);
  }
  ExpectSoloIfServed(h);
}

// U05: 1,000 mixed requests: every forward is issued by the engine thread; no two overlap.
// (FakeModelRunner notes a launch while another is in flight; the thread is checked here.)
TEST(Strategies, EveryForwardIsIssuedByTheEngineThread) {
  FakeModelOptions model;
  model.limits.kv_blocks = 256;
  testing::FakeModelRunner runner(model);
  testing::FakeTokenText text;
  SteadyClock clock;
  EngineOptions options;
  options.queue.requests = 2000;
  options.queue.prompt_tokens_per_kv_token = 1e6;
  Engine engine(options, {&runner, &text, &clock});
  std::atomic<int> foreign{0};
  std::thread::id engine_thread;
  runner.step_time = [&](const StepPlan&) {
    if (engine_thread == std::thread::id()) engine_thread = std::this_thread::get_id();
    if (std::this_thread::get_id() != engine_thread) ++foreign;
    return Duration(0);
  };
  engine.Start();
  std::vector<std::thread> servers;
  std::atomic<int> ended{0};
  for (int d = 0; d < 4; ++d) {
    servers.emplace_back([&, d] {
      Random random(static_cast<uint64_t>(d));
      std::vector<api::Generation> mine;
      for (int i = 0; i < 250; ++i) {
        Result<api::Generation> g = engine.Submit(
            TestRequest(TestPrompt(d * 250 + i, 1 + static_cast<int>(random.Below(90))),
                        1 + static_cast<int>(random.Below(20))),
            nullptr);
        ASSERT_TRUE(g.ok()) << g.status();
        if (random.Chance(0.1)) g->Cancel();
        mine.push_back(*std::move(g));
      }
      for (api::Generation& g : mine) {
        while (!g.stream().ended()) {
          while (const api::StreamEvent* e = g.Next()) g.Consumed(e->text.size());
          std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
        ++ended;
      }
    });
  }
  for (std::thread& server : servers) server.join();
  EXPECT_EQ(ended, 1000);
  EXPECT_EQ(foreign, 0);
  EXPECT_NE(engine_thread, std::this_thread::get_id());
  EXPECT_TRUE(engine.Drain(clock.Now() + std::chrono::seconds(5)));
  EXPECT_THAT(runner.violations(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace tutti::engine
