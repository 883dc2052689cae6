// Row R31: what operators see of an engine: why sequences wait, the blocks, the last steps, and the
// trace of each request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cpu_time.h"
#include "engine/decoder_instance.h"
#include "engine/live_watch.h"
#include "engine/testing/allocation_count.h"
#include "engine/testing/encoder_harness.h"
#include "engine/testing/engine_harness.h"
#include "engine/testing/fake_prefix_store.h"

namespace tutti::engine {
namespace {

using api::LiveEngine;
using api::LiveSequence;
using api::RequestTrace;
using api::TraceEvent;
using api::WaitReason;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using testing::EncoderHarness;
using testing::EngineHarness;
using testing::FakeModelOptions;
using testing::TestEncoding;
using testing::TestPrompt;
using testing::TestRequest;
using testing::TextOf;
using Kind = TraceEvent::Kind;

EngineOptions Places(int max_num_seqs) {
  EngineOptions options;
  options.scheduler.max_num_seqs = max_num_seqs;
  options.scheduler.follow = Duration::zero();
  options.scheduler.speculate = false;
  return options;
}

FakeModelOptions PoolOf(int blocks) {
  FakeModelOptions model;
  model.limits.kv_blocks = blocks;
  return model;
}

std::shared_ptr<RequestTrace> NewTrace(const std::string& id) {
  return std::make_shared<RequestTrace>(RequestTrace::Head{.id = id, .caller = "key:k1"});
}

Request Named(const std::string& id, Request request) {
  request.id = id;
  request.trace = NewTrace(id);
  return request;
}

LiveEngine Watch(EngineHarness& h) {
  h.engine().live().Ask();
  h.RunOnce();
  EXPECT_FALSE(h.engine().live().pending());
  LiveEngine taken;
  EXPECT_TRUE(h.engine().live().Read(&taken));
  return taken;
}

std::string ReasonOf(const LiveEngine& engine, std::string_view id) {
  for (const LiveSequence& row : engine.sequences) {
    if (row.request.view() == id) return std::string(api::WaitReasonName(row.waits_for));
  }
  return "not there";
}

std::vector<Kind> KindsOf(const RequestTrace& trace) {
  std::vector<Kind> kinds;
  for (const TraceEvent& event : trace.engine().events()) kinds.push_back(event.kind);
  return kinds;
}

TEST(LiveState, NoSnapshotUnlessAsked) {
  EngineHarness h(Places(2));
  h.MustSubmit(TestRequest(TestPrompt(1, 40), 20));
  ASSERT_TRUE(h.RunToEnd());
  LiveEngine taken;
  EXPECT_FALSE(h.engine().live().Read(&taken));
  EXPECT_FALSE(h.engine().live().pending());
}

TEST(LiveState, ShowsRunningSequences) {
  EngineHarness h(Places(4));
  Request request = Named("req-1", TestRequest(TestPrompt(1, 70), 20));
  request.tenant = "acme";
  const size_t client = h.MustSubmit(std::move(request));
  ASSERT_TRUE(h.RunUntil([&] { return h.client(client).choices[0].tokens.size() == 5; }));
  const LiveEngine engine = Watch(h);
  ASSERT_EQ(engine.sequences.size(), 1u);
  const LiveSequence& row = engine.sequences[0];
  EXPECT_EQ(row.request.view(), "req-1");
  EXPECT_EQ(row.tenant.view(), "acme");
  EXPECT_EQ(row.caller.view(), "key:k1");
  EXPECT_EQ(row.phase, LiveSequence::Phase::kDecode);
  EXPECT_EQ(row.waits_for, WaitReason::kNone);
  EXPECT_EQ(row.prompt_tokens, 70);
  EXPECT_EQ(row.output_tokens, 5);
  EXPECT_EQ(row.computed_tokens, 74);
  EXPECT_EQ(row.max_tokens, 20);
  EXPECT_EQ(row.blocks, 3);
  EXPECT_GT(row.age, Duration(0));
  EXPECT_EQ(engine.running, 1);
  EXPECT_EQ(engine.waiting, 0);
  EXPECT_FALSE(engine.encoder);
}

TEST(LiveState, NamesThePlaceThatIsMissing) {
  EngineHarness h(Places(1));
  h.MustSubmit(Named("runs", TestRequest(TestPrompt(1, 40), 200)));
  for (int i = 0; i < 3; ++i)
    h.MustSubmit(Named("w" + std::to_string(i), TestRequest(TestPrompt(2 + i, 40), 4)));
  ASSERT_TRUE(h.RunUntil([&] { return h.client(0).choices[0].tokens.size() > 2; }));
  const LiveEngine engine = Watch(h);
  ASSERT_EQ(engine.sequences.size(), 4u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ReasonOf(engine, "w" + std::to_string(i)), "max_num_seqs");
    // In the order in which they will run.
    EXPECT_EQ(engine.sequences[static_cast<size_t>(i) + 1].request.view(), "w" + std::to_string(i));
  }
  EXPECT_EQ(engine.reasons[static_cast<size_t>(WaitReason::kMaxNumSeqs)], 3);
}

TEST(LiveState, NamesMissingBlocks) {
  EngineHarness h(Places(8), PoolOf(8));
  h.MustSubmit(Named("runs", TestRequest(TestPrompt(1, 130), 60)));
  ASSERT_TRUE(h.RunUntil([&] { return h.client(0).choices[0].tokens.size() > 2; }));
  h.MustSubmit(Named("large", TestRequest(TestPrompt(2, 200), 4)));
  h.RunOnce();
  h.RunOnce();
  EXPECT_EQ(ReasonOf(Watch(h), "large"), "kv_blocks");
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(h.FindFault(), "");
}

TEST(LiveState, NamesFairShare) {
  EngineHarness h(Places(1));
  Request first = Named("greedy-0", TestRequest(TestPrompt(1, 200), 100));
  first.tenant = "greedy";
  h.MustSubmit(std::move(first));
  ASSERT_TRUE(h.RunUntil([&] { return h.client(0).choices[0].tokens.size() > 2; }));
  for (int i = 1; i < 3; ++i) {
    Request more = Named("greedy-" + std::to_string(i), TestRequest(TestPrompt(1 + i, 200), 100));
    more.tenant = "greedy";
    h.MustSubmit(std::move(more));
  }
  Request other = Named("modest", TestRequest(TestPrompt(9, 40), 4));
  other.tenant = "modest";
  h.MustSubmit(std::move(other));
  h.RunOnce();
  const LiveEngine engine = Watch(h);
  EXPECT_EQ(ReasonOf(engine, "modest"), "max_num_seqs");
  // They came earlier, and go later.
  EXPECT_EQ(ReasonOf(engine, "greedy-1"), "fair_share");
  EXPECT_EQ(ReasonOf(engine, "greedy-2"), "fair_share");
}

TEST(LiveState, NamesPriority) {
  EngineHarness h(Places(1));
  h.MustSubmit(Named("runs", TestRequest(TestPrompt(1, 40), 100)));
  h.RunOnce();
  Request batch = Named("batch", TestRequest(TestPrompt(2, 40), 4));
  batch.priority = api::Priority::kBatch;
  h.MustSubmit(std::move(batch));
  h.MustSubmit(Named("urgent", TestRequest(TestPrompt(3, 40), 4)));
  h.RunOnce();
  const LiveEngine engine = Watch(h);
  EXPECT_EQ(ReasonOf(engine, "batch"), "priority");
  EXPECT_EQ(ReasonOf(engine, "urgent"), "max_num_seqs");
}

TEST(LiveState, NamesPreemption) {
  EngineHarness h(Places(1));
  Request batch = Named("batch", TestRequest(TestPrompt(1, 40), 100));
  batch.priority = api::Priority::kBatch;
  const std::shared_ptr<RequestTrace> trace = batch.trace;
  const size_t client = h.MustSubmit(std::move(batch));
  ASSERT_TRUE(h.RunUntil([&] { return h.client(client).choices[0].tokens.size() > 2; }));
  h.MustSubmit(Named("urgent", TestRequest(TestPrompt(2, 40), 20)));
  h.RunOnce();
  const LiveEngine engine = Watch(h);
  EXPECT_EQ(ReasonOf(engine, "batch"), "preempted");
  EXPECT_EQ(engine.sequences.back().preemptions, 1);
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_GT(trace->waited(WaitReason::kPreempted), Duration(0));
  const auto events = trace->engine().events();
  const auto lost = std::find_if(events.begin(), events.end(), [](const TraceEvent& event) {
    return event.reason == WaitReason::kPreempted;
  });
  ASSERT_NE(lost, events.end());
  EXPECT_GT(lost->tokens, 40);
}

TEST(LiveState, NamesTheReaderBehind) {
  EngineOptions options = Places(2);
  options.reader.unread_bytes = 2000;
  EngineHarness h(options);
  const size_t client = h.MustSubmit(Named("slow", TestRequest(TestPrompt(1, 40), 400)));
  h.client(client).reads = false;
  ASSERT_TRUE(h.RunUntil([&] { return h.engine().stats().reader_pauses == 1; }));
  const LiveEngine engine = Watch(h);
  EXPECT_EQ(ReasonOf(engine, "slow"), "reader");
  EXPECT_EQ(engine.paused, 1);
  EXPECT_EQ(engine.sequences[0].phase, LiveSequence::Phase::kPaused);
}

TEST(LiveState, NamesTheSamePrompt) {
  EngineOptions options = Places(4);
  options.scheduler.follow = seconds(10);
  EngineHarness h(options, PoolOf(256));
  h.MustSubmit(Named("leader", TestRequest(TextOf(TestPrompt(1, 2048), TestPrompt(5, 20)), 4)));
  h.MustSubmit(Named("follower", TestRequest(TextOf(TestPrompt(1, 2048), TestPrompt(6, 20)), 4)));
  for (int i = 0; i < 3; ++i) h.RunOnce();
  EXPECT_EQ(ReasonOf(Watch(h), "follower"), "same_prompt");
}

TEST(LiveState, NamesTheSiblingAndTheGrant) {
  EngineHarness h(Places(8), PoolOf(256));
  Request several = Named("several", TestRequest(TestPrompt(1, 1500), 4));
  several.n = 3;
  h.MustSubmit(std::move(several));
  h.RunOnce();
  EXPECT_EQ(Watch(h).reasons[static_cast<size_t>(WaitReason::kSibling)], 2);
  Request stepwise = Named("stepwise", TestRequest(TestPrompt(2, 40), 4));
  stepwise.stepwise = true;
  h.MustSubmit(std::move(stepwise));
  h.RunOnce();
  EXPECT_EQ(ReasonOf(Watch(h), "stepwise"), "grant");
}

TEST(LiveState, NamesThePrefixLoad) {
  FakeModelOptions model = PoolOf(64);
  testing::FakePrefixStore store(model);
  {
    EngineHarness before(Places(4), model, {}, false, nullptr, std::nullopt, &store);
    before.TokensComputed(TestRequest(TestPrompt(1, 500), 4));
  }
  ASSERT_GT(store.blocks(), 0u);
  EngineHarness h(Places(4), model, {}, false, nullptr, std::nullopt, &store);
  store.read_delay = 20;
  h.MustSubmit(Named("runs", TestRequest(TestPrompt(2, 40), 100)));
  h.RunOnce();
  h.MustSubmit(Named("loads", TestRequest(TestPrompt(1, 500), 4)));
  h.RunOnce();
  EXPECT_EQ(ReasonOf(Watch(h), "loads"), "prefix_load");
  ASSERT_TRUE(h.RunToEnd());
}

TEST(LiveState, NamesWhoGoesFirst) {
  EngineOptions options = Places(8);
  options.scheduler.max_overtakes = 0;  // nobody passes a sequence that does not fit
  EngineHarness h(options, PoolOf(8));
  h.MustSubmit(Named("runs", TestRequest(TestPrompt(1, 130), 60)));
  ASSERT_TRUE(h.RunUntil([&] { return h.client(0).choices[0].tokens.size() > 2; }));
  h.MustSubmit(Named("large", TestRequest(TestPrompt(2, 200), 4)));
  h.MustSubmit(Named("small", TestRequest(TestPrompt(3, 10), 4)));
  h.RunOnce();
  const LiveEngine engine = Watch(h);
  EXPECT_EQ(ReasonOf(engine, "large"), "kv_blocks");
  EXPECT_EQ(ReasonOf(engine, "small"), "behind");
  ASSERT_TRUE(h.RunToEnd());
}

TEST(LiveState, NamesTheFailedStep) {
  FakeModelOptions model = PoolOf(64);
  model.limits.state_slots = 12;  // sequences that lose their states wait
  EngineHarness h(Places(4), model);
  for (int i = 0; i < 2; ++i)
    h.MustSubmit(Named("r" + std::to_string(i), TestRequest(TestPrompt(1 + i, 40), 50)));
  ASSERT_TRUE(h.RunUntil([&] { return h.client(1).choices[0].tokens.size() > 2; }));
  bool fails = true;
  h.runner().fault = [&](const StepPlan&, const SequenceSlice* slice) {
    return slice == nullptr && std::exchange(fails, false) ? Internal("a step failed") : OkStatus();
  };
  h.RunOnce();
  EXPECT_EQ(Watch(h).reasons[static_cast<size_t>(WaitReason::kFailedStep)], 2);
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(h.FindFault(), "");
}

TEST(LiveState, NamesTheBatchThatFills) {
  EngineOptions options = Places(4);
  options.scheduler.strategy = Strategy::kStatic;
  options.scheduler.static_batch = 4;
  options.scheduler.static_wait = seconds(1);
  EngineHarness h(options);
  h.MustSubmit(Named("first", TestRequest(TestPrompt(1, 40), 4)));
  h.engine().live().Ask();
  h.engine().RunOneStep();
  LiveEngine engine;
  ASSERT_TRUE(h.engine().live().Read(&engine));
  EXPECT_EQ(ReasonOf(engine, "first"), "batch_window");
  ASSERT_TRUE(h.RunToEnd());
}

TEST(LiveState, BlocksAddUp) {
  FakeModelOptions model = PoolOf(64);
  model.limits.context = 512;
  EngineHarness h(Places(4), model);
  h.TokensComputed(TestRequest(TestPrompt(1, 200), 4));  // leaves cached blocks
  Request pin = TestRequest(TestPrompt(2, 100), 0);
  pin.score_only = true;
  pin.pin = {.id = "p", .ttl = seconds(3600), .expires_unix_ms = UnixMillis() + 3600'000};
  h.TokensComputed(std::move(pin));
  h.MustSubmit(TestRequest(TextOf(TestPrompt(2, 100), TestPrompt(3, 40)), 30));
  h.MustSubmit(TestRequest(TestPrompt(4, 70), 30));
  for (int i = 0; i < 4; ++i) h.RunOnce();
  const LiveEngine engine = Watch(h);
  const auto count = [&](char state) {
    return std::count(engine.kv_map.begin(), engine.kv_map.end(), state);
  };
  EXPECT_EQ(engine.kv_blocks, 64);
  EXPECT_EQ(engine.kv_map.size(), 64u);
  EXPECT_EQ(engine.kv_cell_blocks, 1);
  EXPECT_EQ(engine.kv_free + engine.kv_cached + engine.kv_used + engine.kv_shared, 64);
  EXPECT_EQ(count(LiveEngine::kFree), engine.kv_free);
  EXPECT_EQ(count(LiveEngine::kCached), engine.kv_cached);
  EXPECT_EQ(count(LiveEngine::kPinned), 3);
  EXPECT_EQ(engine.kv_pinned, 3);
  EXPECT_EQ(engine.kv_shared, 3);  // by the pin and the request that found it
  EXPECT_GT(engine.kv_cached, 0);
  const EngineStats stats = h.engine().stats();
  EXPECT_EQ(engine.kv_free, stats.kv_blocks_free);
  EXPECT_EQ(engine.kv_cached, stats.kv_blocks_cached);
  EXPECT_EQ(engine.kv_used + engine.kv_shared, stats.kv_blocks_active);
}

TEST(LiveState, LargePoolsAreDrawnInCells) {
  LiveEngine engine;
  std::vector<char> states(LiveEngine::kMaxCells * 3 - 1, LiveEngine::kFree);
  states[0] = states[1] = LiveEngine::kUsed;
  states[3] = LiveEngine::kUsed;
  states[4] = LiveEngine::kCached;
  states[5] = LiveEngine::kPinned;
  DrawBlocks(states, &engine);
  EXPECT_EQ(engine.kv_cell_blocks, 3);
  ASSERT_EQ(engine.kv_map.size(), LiveEngine::kMaxCells);
  EXPECT_EQ(engine.kv_map.substr(0, 3), "up.");
  engine.kv_map.clear();
  states.resize(LiveEngine::kMaxCells);
  DrawBlocks(states, &engine);
  EXPECT_EQ(engine.kv_cell_blocks, 1);
  EXPECT_EQ(engine.kv_map.size(), LiveEngine::kMaxCells);
}

TEST(LiveState, StepsHaveTheirParts) {
  EngineHarness h(Places(4));
  h.MustSubmit(TestRequest(TestPrompt(1, 100), 300));
  h.MustSubmit(TestRequest(TestPrompt(2, 100), 300));
  ASSERT_TRUE(h.RunUntil([&] { return h.client(1).choices[0].tokens.size() == 280; }));
  const LiveEngine engine = Watch(h);
  ASSERT_EQ(engine.steps.size(), LiveEngine::kSteps);
  EXPECT_EQ(engine.steps_total + 1, h.engine().stats().steps);  // one after the snapshot
  int64_t tokens = 0;
  for (size_t i = 0; i < engine.steps.size(); ++i) {
    const api::LiveStep& step = engine.steps[i];
    if (i > 0) {
      EXPECT_EQ(step.step, engine.steps[i - 1].step + 1);
      EXPECT_GE(step.begin, engine.steps[i - 1].begin + engine.steps[i - 1].launch);
    }
    EXPECT_GT(step.launch, Duration(0));
    EXPECT_EQ(step.decode_rows, 2);
    EXPECT_EQ(step.output_tokens, 2);
    tokens += step.output_tokens;
  }
  const double span = ToSeconds(engine.taken - engine.steps.front().begin);
  EXPECT_NEAR(engine.output_tokens_per_s, static_cast<double>(tokens) / std::min(span, 5.0),
              1 / std::min(span, 5.0) * 4);
  EXPECT_GT(engine.busy_share, 0.9);
  EXPECT_LE(engine.busy_share, 1);
}

TEST(LiveState, IdleEnginesHaveNoRate) {
  EngineHarness h(Places(4));
  h.MustSubmit(TestRequest(TestPrompt(1, 100), 20));
  ASSERT_TRUE(h.RunToEnd());
  h.clock().Advance(seconds(10));
  h.engine().live().Ask();
  h.engine().RunOneStep();
  LiveEngine engine;
  ASSERT_TRUE(h.engine().live().Read(&engine));
  EXPECT_EQ(engine.output_tokens_per_s, 0);
  EXPECT_EQ(engine.busy_share, 0);
  EXPECT_FALSE(engine.steps.empty());
}

TEST(LiveState, RowsAreBounded) {
  EngineOptions options = Places(2);
  options.queue.requests = 2000;
  options.queue.prompt_tokens_per_kv_token = 1e6;
  EngineHarness h(options);
  for (int i = 0; i < 700; ++i) h.MustSubmit(TestRequest(TestPrompt(i % 50, 5), 4));
  h.RunOnce();
  const LiveEngine engine = Watch(h);
  EXPECT_EQ(engine.sequences.size(), LiveEngine::kMaxRows);
  EXPECT_EQ(engine.left_out + static_cast<int>(engine.sequences.size()),
            engine.running + engine.waiting);
}

#ifndef TUTTI_SANITIZED
TEST(LiveState, SnapshotsAllocateNothing) {
  EngineHarness h(Places(4), PoolOf(64));
  for (int i = 0; i < 8; ++i) h.MustSubmit(TestRequest(TestPrompt(i, 40), 100));
  for (int i = 0; i < 5; ++i) h.RunOnce();
  DecoderInstance& decoder = h.engine().decoder_for_test();
  h.engine().live().Ask();  // allocates
  decoder.Prepare(h.clock().Now());
  testing::allocation_count = {.armed = true};
  for (int i = 0; i < 10; ++i) {
    h.engine().live().Ask();
    decoder.Prepare(h.clock().Now());
  }
  testing::allocation_count.armed = false;
  EXPECT_EQ(testing::allocation_count.allocations, 0u);
  EXPECT_FALSE(h.engine().live().pending());
}
#endif

// Four in a second are 0.4 % of a core if each takes 1 ms.
TEST(LiveState, ASnapshotOfALargeEngineTakesUnderAMillisecond) {
  EngineOptions options = Places(32);
  options.queue.requests = 400;
  options.queue.prompt_tokens_per_kv_token = 1e6;
  EngineHarness h(options, PoolOf(29'127));  // the default model's on a machine with 8 GiB
  for (int i = 0; i < 32 + 200; ++i) h.MustSubmit(TestRequest(TestPrompt(i % 50, 20), 4000));
  for (int i = 0; i < 300; ++i) h.RunOnce();
  DecoderInstance& decoder = h.engine().decoder_for_test();
  h.engine().live().Ask();
  decoder.Prepare(h.clock().Now());
  constexpr int kTimes = 50;
  const double begin = support::ThreadSeconds();
  for (int i = 0; i < kTimes; ++i) decoder.Prepare(h.clock().Now());
  const double without = support::ThreadSeconds() - begin;
  for (int i = 0; i < kTimes; ++i) {
    h.engine().live().Ask();
    decoder.Prepare(h.clock().Now());
  }
  const double each = (support::ThreadSeconds() - begin - 2 * without) / kTimes;
  EXPECT_LT(each, 1e-3 * support::kSlower);
  RecordProperty("snapshot_us", std::to_string(each * 1e6));
}

// Regression: it was noted as submitted before it was accepted.
TEST(LiveState, WhatComesAfterATurnBeganIsNotedInOrder) {
  EngineHarness h(Places(4), PoolOf(64));
  Request request = Named("late", TestRequest(TestPrompt(0, 8), 4));
  const std::shared_ptr<RequestTrace> trace = request.trace;
  const TimePoint turn_began = h.clock().Now() - std::chrono::microseconds(3);
  h.MustSubmit(std::move(request));
  h.engine().decoder_for_test().Prepare(turn_began);
  const auto events = trace->engine().events();
  ASSERT_GE(events.size(), 3u);
  for (size_t i = 1; i < events.size(); ++i) EXPECT_LE(events[i - 1].at, events[i].at);
}

// For ThreadSanitizer too.
TEST(LiveState, IsReadWhileTheEngineRuns) {
  testing::FakeModelRunner runner(PoolOf(256));
  testing::FakeTokenText text;
  SteadyClock clock;
  Engine engine(Places(4), EngineDependencies{.runner = &runner, .text = &text, .clock = &clock});
  engine.Start();
  std::vector<api::Generation> generations;
  std::vector<std::shared_ptr<RequestTrace>> traces;
  for (int i = 0; i < 8; ++i) {
    Request request = Named("r" + std::to_string(i), TestRequest(TestPrompt(i, 60), 2000));
    traces.push_back(request.trace);
    Result<api::Generation> generation = engine.Submit(std::move(request), nullptr);
    ASSERT_TRUE(generation.ok()) << generation.status();
    generations.push_back(*std::move(generation));
  }
  int snapshots = 0;
  TimePoint last{};
  const TimePoint limit = clock.Now() + seconds(60);
  while (snapshots < 20 && clock.Now() < limit) {
    engine.live().Ask();
    LiveEngine taken;
    if (engine.live().Read(&taken) && taken.taken > last) {
      last = taken.taken;
      ++snapshots;
      EXPECT_EQ(taken.kv_free + taken.kv_cached + taken.kv_used + taken.kv_shared, 256);
      EXPECT_EQ(taken.sequences.size(),
                static_cast<size_t>(taken.running + taken.waiting + taken.paused));
      for (size_t i = 1; i < taken.steps.size(); ++i)
        EXPECT_EQ(taken.steps[i].step, taken.steps[i - 1].step + 1);
    }
    for (const auto& trace : traces) {
      const auto events = trace->engine().events();
      for (size_t i = 1; i < events.size(); ++i) {
        EXPECT_LE(events[i - 1].at, events[i].at)
            << i << ": " << api::TraceEventName(events[i - 1].kind) << ", then "
            << api::TraceEventName(events[i].kind) << " of step " << events[i].step;
      }
      (void)trace->LastSteps();
    }
    // They read, so that they do not pause.
    for (api::Generation& generation : generations) {
      while (const api::StreamEvent* event = generation.Next())
        generation.Consumed(event->text.size());
    }
  }
  EXPECT_EQ(snapshots, 20);
  generations.clear();
}

TEST(LiveState, AReaderHoldsNoStepUp) {
  LiveWatch watch(std::make_shared<Signal>());
  watch.Ask();
  watch.Take(TimePoint(seconds(1)), [&](LiveEngine& out) {
    out.running = 7;
    // While the buffer is in use, another snapshot is left for a later step.
    bool filled = false;
    std::thread([&] {
      watch.Take(TimePoint(seconds(2)), [&](LiveEngine&) { filled = true; });
    }).join();
    EXPECT_FALSE(filled);
  });
  LiveEngine taken;
  ASSERT_TRUE(watch.Read(&taken));
  EXPECT_EQ(taken.running, 7);
  EXPECT_EQ(taken.taken, TimePoint(seconds(1)));
}

TEST(RequestTrace, HasEveryStage) {
  EngineHarness h(Places(1));
  h.MustSubmit(Named("first", TestRequest(TestPrompt(1, 40), 50)));
  Request request = Named("second", TestRequest(TestPrompt(2, 600), 5));
  const std::shared_ptr<RequestTrace> trace = request.trace;
  const size_t client = h.MustSubmit(std::move(request));
  ASSERT_TRUE(h.RunToEnd());
  const std::vector<Kind> kinds = KindsOf(*trace);
  // It waits for a place, is computed in two parts, and draws five tokens.
  EXPECT_THAT(
      kinds, ElementsAre(Kind::kAccepted, Kind::kSubmitted, Kind::kWaits, Kind::kWaits, Kind::kRuns,
                         Kind::kPrefill, Kind::kPrefill, Kind::kFirstToken, Kind::kEnded));
  const auto events = trace->engine().events();
  EXPECT_EQ(events[1].tokens, 600);
  EXPECT_EQ(events[3].reason, WaitReason::kMaxNumSeqs);
  EXPECT_EQ(events[5].tokens + events[6].tokens, 600);
  EXPECT_EQ(events[8].tokens, 5);
  EXPECT_EQ(trace->end(), "ok");
  EXPECT_EQ(trace->steps(), 2u + 4u);
  EXPECT_EQ(trace->LastSteps().size(), 6u);
  EXPECT_EQ(trace->LastSteps().front(), events[5].step);
  Duration waited{0};
  for (size_t i = 1; i < api::kWaitReasons; ++i)
    waited += trace->waited(static_cast<WaitReason>(i));
  EXPECT_EQ(waited, h.client(client).timings.queue);
  EXPECT_GT(trace->longest_gap(), Duration(0));
}

TEST(RequestTrace, KeepsItsEndWhenItIsFull) {
  EngineHarness h(Places(2), PoolOf(512));
  Request request = Named("long", TestRequest(TestPrompt(1, 3900), 20));
  const std::shared_ptr<RequestTrace> trace = request.trace;
  for (int i = 0; i < 300; ++i) trace->engine().Append({.kind = Kind::kWaits});
  h.MustSubmit(std::move(request));
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_GT(trace->engine().dropped(), 200);
  EXPECT_EQ(trace->engine().events().back().kind, Kind::kEnded);
  EXPECT_THAT(KindsOf(*trace), ::testing::Contains(Kind::kFirstToken));
}

TEST(RequestTrace, EndsWithTheReason) {
  EngineHarness h(Places(1));
  Request request = Named("late", TestRequest(TestPrompt(1, 40), 1000));
  request.deadline = h.clock().Now() + seconds(1);
  const std::shared_ptr<RequestTrace> trace = request.trace;
  h.MustSubmit(std::move(request));
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(trace->end(), "deadline_exceeded");
}

TEST(RequestTrace, WaitingTimeCountsUntilTheEnd) {
  EngineHarness h(Places(1));
  h.MustSubmit(Named("runs", TestRequest(TestPrompt(1, 40), 1000)));
  Request request = Named("waits", TestRequest(TestPrompt(2, 40), 4));
  request.deadline = h.clock().Now() + seconds(1);
  const std::shared_ptr<RequestTrace> trace = request.trace;
  h.MustSubmit(std::move(request));
  ASSERT_TRUE(h.RunUntil([&] { return h.client(1).done(); }));
  EXPECT_GT(trace->waited(WaitReason::kMaxNumSeqs), milliseconds(800));
  EXPECT_EQ(trace->steps(), 0u);
}

TEST(LiveEncoder, ShowsItsQueueAndBatches) {
  EncoderHarness h;
  for (int i = 0; i < 60; ++i) {
    TokenizedRequest request = TestEncoding(100 + i, {10, 20});
    request.id = "e" + std::to_string(i);
    request.trace = NewTrace(request.id);
    h.MustSubmit(std::move(request));
  }
  h.RunOnce();
  h.engine().live().Ask();
  h.RunOnce();
  LiveEngine engine;
  ASSERT_TRUE(h.engine().live().Read(&engine));
  EXPECT_TRUE(engine.encoder);
  EXPECT_GT(engine.waiting, 0);
  EXPECT_EQ(engine.sequences.size(), static_cast<size_t>(engine.running + engine.waiting));
  EXPECT_EQ(engine.reasons[static_cast<size_t>(WaitReason::kBatchWindow)], engine.waiting);
  EXPECT_EQ(engine.sequences.back().items, 2);
  EXPECT_EQ(engine.sequences.back().items_left, 2);
  ASSERT_FALSE(engine.steps.empty());
  EXPECT_GT(engine.steps.front().prefill_rows, 1);
  EXPECT_GT(engine.steps.front().launch, Duration(0));
  const std::shared_ptr<RequestTrace> trace = h.client(0).request.trace;
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_THAT(KindsOf(*trace), ElementsAre(Kind::kAccepted, Kind::kSubmitted, Kind::kWaits,
                                           Kind::kRuns, Kind::kEnded));
  EXPECT_EQ(trace->end(), "ok");
  EXPECT_GE(trace->steps(), 1u);  // batches may divide its inputs
  EXPECT_LE(trace->steps(), 2u);
}

}  // namespace
}  // namespace tutti::engine
