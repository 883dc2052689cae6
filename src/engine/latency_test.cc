// Rows N01 U68 U31 U82 N52 N53 U62 and fairness on the timing device: what callers see of waiting,
// leaving and being refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/decoder_instance.h"
#include "engine/testing/engine_harness.h"

namespace tutti::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::EngineHarness;
using testing::FakeModelOptions;
using testing::Gaps;
using testing::HarnessClient;
using testing::Percentile;
using testing::TestPrompt;
using testing::TestRequest;
using testing::TimingModel;

FakeModelOptions LatencyPool() {
  FakeModelOptions model;
  model.limits.kv_blocks = 512;
  model.limits.context = 8192;
  return model;
}

void ExpectSoloOrPrefix(EngineHarness& h) {
  for (size_t i = 0; i < h.size(); ++i) {
    HarnessClient& c = h.client(i);
    ASSERT_TRUE(c.done()) << i;
    for (int k = 0; k < c.request.n; ++k) {
      const std::vector<TokenId> solo = h.Solo(c.request, k);
      const auto& got = c.choices[static_cast<size_t>(k)].tokens;
      if (c.status().ok()) {
        EXPECT_EQ(got, solo) << i;
      } else {
        EXPECT_TRUE(got.size() <= solo.size() && std::equal(got.begin(), got.end(), solo.begin()))
            << i;
      }
    }
  }
  EXPECT_THAT(h.runner().violations(), ::testing::IsEmpty());
  EXPECT_EQ(h.engine().decoder_for_test().pool().active(), 0);
}

// N01: a 4,096-token prompt arrives among 8 decoding streams: their P99 ITL stays <= max(2 x its
// level without the prompt, the target); the prompt still finishes.
TEST(Latency, ALongPromptDoesNotStarveDecodingStreams) {
  for (const int base_ms :
       {5, 30, 60}) {  // decode alone: far below, near and above the target of 50 ms
    TimingModel timing;
    timing.base = milliseconds(base_ms);
    EngineOptions options;
    options.scheduler.max_num_seqs = 9;
    FakeModelOptions model = LatencyPool();
    model.limits.kv_blocks = 1024;
    EngineHarness h(options, model, timing);
    for (int i = 0; i < 8; ++i) h.MustSubmit(TestRequest(TestPrompt(i, 20), 2000));
    size_t prompt = 0;
    h.At(seconds(2), [&] { prompt = h.MustSubmit(TestRequest(TestPrompt(99, 4096), 5)); });
    ASSERT_TRUE(h.RunToEnd());
    const TimePoint arrived = h.start() + seconds(2),
                    answered = h.client(prompt).choices[0].times.front();
    std::vector<Duration> before, during;
    for (size_t i = 0; i < 8; ++i) {
      for (const Duration gap : Gaps(h.client(i).choices[0], h.start() + seconds(1), arrived))
        before.push_back(gap);
      for (const Duration gap : Gaps(h.client(i).choices[0], arrived, answered))
        during.push_back(gap);
    }
    ASSERT_GT(during.size(), 100u);
    EXPECT_LE(Percentile(during, 0.99),
              std::max(2 * Percentile(before, 0.99), Duration(milliseconds(50))))
        << base_ms;
    EXPECT_TRUE(h.client(prompt).status().ok());
    ExpectSoloOrPrefix(h);
  }
}

// N01: a cancel during prefill takes effect within one chunk.
TEST(Latency, ACancelDuringPrefillTakesEffectWithinOneChunk) {
  EngineHarness h({}, LatencyPool());
  const size_t prompt = h.MustSubmit(TestRequest(TestPrompt(1, 4096), 5));
  h.RunUntil([&] { return h.runner().tokens_computed() >= 1000; });
  const uint64_t steps = h.runner().steps();
  h.client(prompt).generation.Cancel();
  h.RunOnce();
  EXPECT_TRUE(h.client(prompt).done());
  EXPECT_LE(h.runner().steps() - steps, 1u);
  EXPECT_EQ(h.client(prompt).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(h.engine().Load().kv_blocks_used, 0);
}

TEST(Latency, TheChunkIsLongWhenNobodyDecodesAndBoundedWhenSomebodyDoes) {
  EngineHarness h({}, LatencyPool(),
                  {.base = milliseconds(1),
                   .per_decode_row = Duration(0),
                   .per_prefill_token = std::chrono::microseconds(10)});
  h.MustSubmit(TestRequest(TestPrompt(1, 2048), 200));
  h.RunUntil([&] { return !h.client(0).choices[0].tokens.empty(); });
  EXPECT_EQ(h.runner().largest_step_tokens(), 512);
  EXPECT_EQ(h.runner().steps(), 4u);
  int max_prefill = 0;
  h.runner().fault = [&](const StepPlan& plan, const SequenceSlice* slice) {
    if (slice == nullptr && plan.slices.size() > 1)
      max_prefill = std::max(max_prefill, plan.tokens - 1);
    return OkStatus();
  };
  h.MustSubmit(TestRequest(TestPrompt(2, 2048), 1));
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(max_prefill, 128);
}

// U72: a short prompt joins within one step although a long one is being computed before it.
TEST(Latency, AShortPromptGetsThroughBesideALongOne) {
  EngineHarness h({}, LatencyPool());
  const size_t large = h.MustSubmit(TestRequest(TestPrompt(1, 6000), 5));
  h.RunUntil([&] { return h.runner().steps() >= 2; });
  const TimePoint sent = h.clock().Now();
  const size_t small = h.MustSubmit(TestRequest(TestPrompt(2, 100), 5));
  h.RunOnce();
  EXPECT_EQ(h.engine().stats().running, 2);
  // The short prompt fitted into the step next to the long one's chunk.
  EXPECT_EQ(h.client(small).choices[0].tokens.size(), 1u);
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_LT(h.client(small).ended_at - sent, h.client(large).ended_at - sent);
  ExpectSoloOrPrefix(h);
}

// The second long prompt took all that the first had left, and the short one waited for both.
TEST(Latency, AShortPromptGetsThroughBesideTwoLongOnes) {
  EngineHarness h({}, LatencyPool());
  for (const int seed : {1, 2}) h.MustSubmit(TestRequest(TestPrompt(seed, 3000), 5));
  h.RunUntil([&] { return h.runner().steps() >= 2 && h.engine().stats().running == 2; });
  const TimePoint sent = h.clock().Now();
  const size_t small = h.MustSubmit(TestRequest(TestPrompt(3, 100), 5));
  h.RunOnce();
  EXPECT_EQ(h.engine().stats().running, 3);
  EXPECT_EQ(h.client(small).choices[0].tokens.size(), 1u);
  ASSERT_TRUE(h.RunToEnd());
  for (const size_t large : {0u, 1u})
    EXPECT_LT(h.client(small).ended_at - sent, h.client(large).ended_at - sent);
  ExpectSoloOrPrefix(h);
}

// U68: cancel after 5 of 50 tokens: at most 1 further token; its place and blocks free within one
// step; the text of the others is unchanged. By call, by a dropped handle and by deadline.
TEST(Latency, CancellingOneAmongManyFreesItWithinOneStep) {
  for (const bool by_deadline : {false, true}) {
    EngineHarness h;
    for (int i = 0; i < 4; ++i) {
      Request r = TestRequest(TestPrompt(i, 10), 50, i % 2 ? 0.9 : 0.0);
      if (i == 2 && by_deadline) r.deadline = h.clock().Now() + milliseconds(60);
      h.MustSubmit(std::move(r));
    }
    HarnessClient& victim = h.client(2);
    h.RunUntil([&] { return victim.choices[0].tokens.size() >= 5; });
    const int used = h.engine().Load().kv_blocks_used;
    if (by_deadline) {
      h.RunUntil([&] { return victim.done(); });
    } else {
      victim.generation.Cancel();
      h.RunOnce();
      EXPECT_LE(victim.choices[0].tokens.size(), 6u);
    }
    EXPECT_TRUE(victim.done());
    EXPECT_EQ(h.engine().Load().kv_blocks_used, used - 1);
    EXPECT_EQ(h.engine().Load().running, 3);
    EXPECT_EQ(victim.status().reason(), by_deadline ? "deadline_exceeded" : "cancelled");
    ASSERT_TRUE(h.RunToEnd());
    ExpectSoloOrPrefix(h);
    EXPECT_TRUE(h.client(0).status().ok() && h.client(1).status().ok() &&
                h.client(3).status().ok());
    EXPECT_EQ(h.engine().Load().waiting, 0);
  }
}

TEST(Latency, AHandleThatIsDroppedCancelsItsRequest) {
  EngineHarness h;
  {
    Result<api::Generation> dropped =
        h.engine().Submit(TestRequest(TestPrompt(1, 10), 50), nullptr);
    ASSERT_TRUE(dropped.ok());
    for (int i = 0; i < 5; ++i) h.RunOnce();
    EXPECT_EQ(h.engine().Load().running, 1);
  }
  h.RunOnce();
  EXPECT_EQ(h.engine().Load().running, 0);
  EXPECT_EQ(h.engine().Load().kv_blocks_used, 0);
  EXPECT_LE(h.engine().stats().output_tokens, 6u);
}

// N52: deadlines are checked in the queue, in prefill and in decode.
TEST(Latency, DeadlinesEndWorkInEveryPhase) {
  EngineOptions options;
  options.scheduler.max_num_seqs = 1;
  {  // decode
    EngineHarness h(options, LatencyPool());
    Request r = TestRequest(TestPrompt(1, 10), 500);
    r.deadline = h.clock().Now() + milliseconds(100);
    h.MustSubmit(std::move(r));
    ASSERT_TRUE(h.RunToEnd());
    EXPECT_GT(h.client(0).choices[0].tokens.size(), 5u);
    EXPECT_EQ(h.client(0).status().reason(), "deadline_exceeded");
    EXPECT_LE(h.client(0).ended_at - h.start(), milliseconds(100 + 12));  // within one step
  }
  {  // prefill
    EngineHarness h(options, LatencyPool());
    Request r = TestRequest(TestPrompt(1, 4000), 5);
    r.deadline = h.clock().Now() + milliseconds(300);
    h.MustSubmit(std::move(r));
    ASSERT_TRUE(h.RunToEnd());
    EXPECT_TRUE(h.client(0).choices[0].tokens.empty());
    EXPECT_LT(h.runner().tokens_computed(), 1600u);
    EXPECT_EQ(h.client(0).status().reason(), "deadline_exceeded");
  }
  {  // queue: not a token is computed for it
    EngineOptions exact = options;
    exact.scheduler.speculate = false;  // rows of draft tokens are computed too
    EngineHarness h(exact, LatencyPool());
    h.MustSubmit(TestRequest(TestPrompt(1, 10), 100));
    Request r = TestRequest(TestPrompt(2, 10), 5);
    r.deadline = h.clock().Now() + milliseconds(200);
    h.MustSubmit(std::move(r));
    ASSERT_TRUE(h.RunToEnd());
    EXPECT_EQ(h.client(1).status().reason(), "deadline_exceeded");
    EXPECT_EQ(h.runner().tokens_computed(), 10u + 99u);
  }
  {  // passed already
    EngineHarness h(options, LatencyPool());
    Request r = TestRequest(TestPrompt(2, 10), 5);
    r.deadline = h.clock().Now();
    EXPECT_EQ(h.Submit(std::move(r)).status().reason(), "deadline_exceeded");
  }
  {  // cannot make it: refused before any compute, once the service time is known
    EngineHarness h(options, LatencyPool());
    for (int i = 0; i < 6; ++i) h.MustSubmit(TestRequest(TestPrompt(i, 10), 100));
    h.RunUntil([&] { return h.client(0).done(); });
    Request r = TestRequest(TestPrompt(2, 10), 5);
    r.deadline = h.clock().Now() + milliseconds(400);  // five jobs of half a second wait before it
    const Status status = h.Submit(std::move(r)).status();
    EXPECT_EQ(status.reason(), "overloaded");
    EXPECT_TRUE(status.retry_after().has_value());
    ASSERT_TRUE(h.RunToEnd());
  }
}

// U82, its engine part. The queue bounds every accepted request that does not run: with 4 sequences
// and queue 32 the 37th unfinished request is refused, with a retry-after; n counts n; every
// accepted one finishes.
TEST(Latency, TheQueueIsBoundedAndOneTooManyIsRefused) {
  EngineOptions options;
  options.scheduler.max_num_seqs = 4;
  options.queue.requests = 32;
  EngineHarness h(options);
  for (int i = 0; i < 36; ++i) h.MustSubmit(TestRequest(TestPrompt(i, 5), 10));
  const Status refused = h.Submit(TestRequest(TestPrompt(1, 5), 10)).status();
  EXPECT_EQ(refused.reason(), "queue_full");
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  ASSERT_TRUE(refused.retry_after().has_value());
  EXPECT_GE(*refused.retry_after(), seconds(1));
  EXPECT_EQ(h.engine().stats().refused, 1u);
  ASSERT_TRUE(h.RunToEnd());
  ExpectSoloOrPrefix(h);
  // n counts n.
  for (int i = 0; i < 4; ++i) {
    Request r = TestRequest(TestPrompt(i, 5), 10, 0.9);
    r.n = 8;
    h.MustSubmit(std::move(r));
  }
  Request r = TestRequest(TestPrompt(9, 5), 10);
  r.n = 5;
  EXPECT_EQ(h.Submit(std::move(r)).status().reason(), "queue_full");
  r = TestRequest(TestPrompt(9, 5), 10);
  r.n = 4;
  EXPECT_TRUE(h.Submit(std::move(r)).ok());
  ASSERT_TRUE(h.RunToEnd());
  ExpectSoloOrPrefix(h);
}

// U82: requests in preparation count inside the queue; a permit that is dropped gives its
// place back.
TEST(Latency, APlaceInTheQueueIsTakenBeforePreparationAndGivenBack) {
  EngineOptions options;
  options.scheduler.max_num_seqs = 1;
  options.queue.requests = 2;
  options.queue.bytes = 1000;
  EngineHarness h(options);
  std::vector<AdmissionPermit> permits;
  for (int i = 0; i < 3; ++i) {
    Result<AdmissionPermit> permit = h.engine().Admit({.n = 1, .bytes = 300});
    ASSERT_TRUE(permit.ok());
    permits.push_back(*std::move(permit));
  }
  EXPECT_EQ(h.engine().stats().preparing, 3);
  EXPECT_EQ(h.engine().Load().waiting, 3);
  EXPECT_EQ(h.engine().Admit({}).status().reason(), "queue_full");
  permits.pop_back();
  EXPECT_EQ(h.engine().Admit({.n = 1, .bytes = 500}).status().reason(), "queue_full");  // by bytes
  EXPECT_EQ(h.engine().Admit({.n = 1, .bytes = 5000}).status().reason(),
            "request_exceeds_capacity");
  EXPECT_TRUE(h.engine().Admit({.n = 1, .bytes = 300}).ok());
  // Cancelled while it was prepared: submitted, it ends at once and computes nothing.
  auto stream = std::make_shared<api::TokenStream>(nullptr);
  permits[0].control()->Cancel();
  ASSERT_TRUE(
      h.engine().Submit(std::move(permits[0]), TestRequest(TestPrompt(1, 5), 5), stream).ok());
  h.RunOnce();
  ASSERT_TRUE(stream->ended());
  EXPECT_EQ(stream->status().code(), StatusCode::kCancelled);
  EXPECT_EQ(h.runner().tokens_computed(), 0u);
  permits.clear();
  EXPECT_EQ(h.engine().Load().waiting, 0);
}

// U31: the queue is bounded by prompt tokens too: 4 x the KV capacity.
TEST(Latency, WaitingPromptTokensAreBounded) {
  EngineOptions options;
  options.scheduler.max_num_seqs = 1;
  FakeModelOptions model;
  model.limits.kv_blocks = 10;  // 320 tokens; 1,280 may wait
  EngineHarness h(options, model);
  int accepted = 0;
  Status refused;
  for (int i = 0; i < 20 && refused.ok(); ++i) {
    const Result<size_t> r = h.Submit(TestRequest(TestPrompt(i, 200), 5));
    accepted += r.ok() ? 1 : 0;
    refused = r.status();
  }
  EXPECT_EQ(accepted, 6);
  EXPECT_EQ(refused.reason(), "queue_full");
  ASSERT_TRUE(h.RunToEnd());
  ExpectSoloOrPrefix(h);
  EXPECT_EQ(h.engine().stats().queued_prompt_tokens, 0);
}

TEST(Latency, OnlyAnAttachedInteractiveRequestEndsAfter30sInTheQueue) {
  EngineOptions options;
  options.scheduler.max_num_seqs = 1;
  EngineHarness h(options, LatencyPool(), {.base = milliseconds(100)});
  h.MustSubmit(TestRequest(TestPrompt(1, 5), 400));  // 40 s
  h.MustSubmit(TestRequest(TestPrompt(2, 5), 5));
  Request batch = TestRequest(TestPrompt(3, 5), 5);
  batch.priority = api::Priority::kBatch;
  h.MustSubmit(std::move(batch));
  Request detached = TestRequest(TestPrompt(4, 5), 5);
  detached.detached = true;
  h.MustSubmit(std::move(detached));
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_TRUE(h.client(0).status().ok());
  EXPECT_EQ(h.client(1).status().reason(), "overloaded");
  EXPECT_TRUE(h.client(1).status().retry_after().has_value());
  EXPECT_NEAR(ToSeconds(h.client(1).ended_at - h.start()), 30.0, 0.2);
  EXPECT_TRUE(h.client(2).status().ok());
  EXPECT_TRUE(h.client(3).status().ok());
}

// N53: above 48 KiB of unread text the sequence pauses and stops running. After 30 s in which its
// client reads nothing it is cancelled. Other sequences continue, and a reader that comes back gets
// everything.
TEST(Latency, AStoppedReaderPausesItsSequenceAloneAndIsCancelledAfter30s) {
  EngineOptions options;
  options.scheduler.max_num_seqs = 2;
  EngineHarness h(options, LatencyPool(), {.base = milliseconds(1), .per_decode_row = Duration(0)});
  h.MustSubmit(TestRequest(TestPrompt(1, 5), 4000));
  h.MustSubmit(TestRequest(TestPrompt(2, 5), 4000));
  h.client(0).reads = false;  // never reads again
  h.client(1).reads = false;  // for a while
  h.RunUntil([&] { return h.engine().stats().reader_pauses == 2; });
  EXPECT_EQ(h.engine().stats().running, 0);
  EXPECT_EQ(h.engine().stats().waiting_deferred, 2);
  const TimePoint paused = h.clock().Now();
  EXPECT_GT(h.client(0).generation.stream().unread_bytes(), options.reader.unread_bytes);
  EXPECT_LT(h.client(0).generation.stream().unread_bytes(), options.reader.unread_bytes + 2048);
  for (int i = 0; i < 4; ++i)
    h.MustSubmit(TestRequest(TestPrompt(10 + i, 5), 100));  // two others can run
  h.At(paused - h.start() + seconds(20), [&] { h.client(1).reads = true; });
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(h.client(0).status().code(), StatusCode::kCancelled);
  EXPECT_NEAR(ToSeconds(h.client(0).ended_at - paused), 30.0, 0.1);
  EXPECT_TRUE(h.client(1).status().ok());
  EXPECT_EQ(h.client(1).choices[0].tokens, h.Solo(h.client(1).request));
  for (size_t i = 2; i < h.size(); ++i) EXPECT_LT(h.client(i).ended_at - paused, seconds(1));
  EXPECT_EQ(h.engine().stats().reader_cancels, 1u);
  EXPECT_EQ(h.engine().decoder_for_test().pool().active(), 0);
}

// Stopped readers once held their places in the queue for 30 s, and all other requests were
// refused.
TEST(Latency, StoppedReadersKeepNobodyOutOfTheQueueUpToABoundOfTheirOwn) {
  EngineOptions options;
  options.scheduler.max_num_seqs = 2;
  options.queue.requests = 1;
  options.queue.age = Duration::max();
  options.reader.aside = 5;
  EngineHarness h(options, LatencyPool(), {.base = milliseconds(1), .per_decode_row = Duration(0)});
  const auto full = [&] {
    return h.Submit(TestRequest(TestPrompt(99, 5), 10)).status().reason() == "queue_full";
  };
  for (uint64_t i = 0; i < 5; ++i) {
    Request request = TestRequest(TestPrompt(static_cast<int>(i), 5), 2000, 0.9);
    request.n = 1 + static_cast<int>(i % 2);  // all choices of a request go aside
    h.MustSubmit(std::move(request));
    h.client(i).reads = false;
    ASSERT_TRUE(h.RunUntil([&] { return h.engine().stats().reader_pauses == i + 1; }));
  }
  EXPECT_EQ(h.engine().Load().waiting, 7) << "they are told all the same";
  // The limit is what it is without them, exactly.
  for (int i = 0; i < 3; ++i) h.MustSubmit(TestRequest(TestPrompt(20 + i, 5), 400));
  EXPECT_TRUE(full());
  ASSERT_TRUE(
      h.RunUntil([&] { return h.client(5).done() && h.client(6).done() && h.client(7).done(); }));
  // Beyond their bound they keep their places.
  for (size_t i = 8; i < 11; ++i) {
    h.MustSubmit(TestRequest(TestPrompt(static_cast<int>(i), 5), 2000));
    h.client(i).reads = false;
  }
  ASSERT_TRUE(h.RunUntil([&] { return h.engine().stats().reader_pauses == 8; }));
  EXPECT_TRUE(full());
  // Requests whose readers read again return to a full queue and get all tokens they asked for; the
  // rest end.
  for (const size_t i : {0, 1, 8}) h.client(i).reads = true;
  ASSERT_TRUE(h.RunToEnd());
  for (const size_t i : {0, 1, 8}) EXPECT_TRUE(h.client(i).status().ok());
  for (const size_t i : {2, 3, 4, 9, 10})
    EXPECT_EQ(h.client(i).status().code(), StatusCode::kCancelled);
  ExpectSoloOrPrefix(h);
  const AdmissionState& admission = *h.engine().decoder_for_test().admission();
  EXPECT_EQ(admission.unfinished.load(), 0);
  EXPECT_EQ(admission.places.load(), 0);
  EXPECT_EQ(admission.aside.load(), 0);
}

TEST(Latency, APausedSequenceLosesItsBlocksOnlyUnderPressure) {
  EngineOptions options;
  options.scheduler.max_num_seqs = 2;
  FakeModelOptions model;
  model.limits.kv_blocks = 20;
  EngineHarness h(options, model, {.base = milliseconds(1)});
  h.MustSubmit(TestRequest(TestPrompt(1, 5), 400));
  h.client(0).reads = false;
  h.RunUntil([&] { return h.engine().stats().reader_pauses == 1; });
  const int held = h.engine().Load().kv_blocks_used;
  EXPECT_GT(held, 4);
  h.MustSubmit(TestRequest(TestPrompt(2, 40), 10));
  ASSERT_TRUE(h.RunUntil([&] { return h.client(1).done(); }));
  EXPECT_EQ(h.engine().Load().kv_blocks_used, held);
  h.MustSubmit(TestRequest(TestPrompt(3, 15 * kBlockTokens), 10));  // needs more than is free
  ASSERT_TRUE(h.RunUntil([&] { return h.client(2).done(); }));
  EXPECT_EQ(h.engine().Load().kv_blocks_used, 0);
  EXPECT_EQ(h.engine().stats().preemptions, 0u);
  h.client(0).reads = true;
  ASSERT_TRUE(h.RunToEnd());
  ExpectSoloOrPrefix(h);
}

// U62: the step API: a state draws a token for each grant; looping over steps equals one-shot
// generation, greedy and seeded, on 50 prompts, among other traffic.
TEST(Latency, SteppingOnDemandEqualsOneShotGeneration) {
  EngineHarness h;
  for (int i = 0; i < 50; ++i) {
    Request request =
        TestRequest(TestPrompt(i, 1 + i * 3), 20, i % 2 ? 0.9 : 0.0, static_cast<uint64_t>(i));
    request.stepwise = true;
    Result<AdmissionPermit> permit = h.engine().Admit({});
    ASSERT_TRUE(permit.ok());
    auto stream = std::make_shared<api::TokenStream>(nullptr);
    std::shared_ptr<RequestControl> control = permit->control();
    ASSERT_TRUE(h.engine().Submit(*std::move(permit), request, stream).ok());
    if (i % 10 == 0) h.MustSubmit(TestRequest(TestPrompt(100 + i, 30), 40));
    api::Generation generation(stream, control);
    std::vector<TokenId> tokens;
    while (!stream->ended()) {
      const size_t before = tokens.size();
      control->Grant(1);
      for (int round = 0; round < 50; ++round) {
        h.RunOnce();
        while (const api::StreamEvent* e = generation.Next()) {
          generation.Consumed(e->text.size());
          if (e->kind == api::StreamEvent::Kind::kToken) tokens.push_back(e->token);
        }
      }
      ASSERT_EQ(tokens.size(), before + 1);  // one grant, one token, however long one waits
    }
    EXPECT_EQ(tokens, h.Solo(request));
  }
  ASSERT_TRUE(h.RunToEnd());
}

TEST(Latency, AStateThatNobodyStepsDoesNotRun) {
  EngineOptions options;
  options.scheduler.max_num_seqs = 1;
  EngineHarness h(options);
  Request request = TestRequest(TestPrompt(1, 10), 20);
  request.stepwise = true;
  h.MustSubmit(std::move(request));
  h.MustSubmit(TestRequest(TestPrompt(2, 10), 20));
  ASSERT_TRUE(h.RunUntil([&] { return h.client(1).done(); }));
  EXPECT_FALSE(h.client(0).done());
  EXPECT_EQ(h.client(0).choices[0].tokens.size(), 0u);
  h.client(0).generation.Cancel();
  ASSERT_TRUE(h.RunToEnd());
}

// Fair share before priority: a tenant that floods does not delay one that sends a request now and
// then.
TEST(Latency, AFloodOfOneTenantDoesNotStarveAnother) {
  EngineOptions options;
  options.scheduler.max_num_seqs = 2;
  EngineHarness h(options, LatencyPool());
  for (int i = 0; i < 60; ++i) {
    Request r = TestRequest(TestPrompt(i, 20), 20);
    r.tenant = "flood";
    h.MustSubmit(std::move(r));
  }
  for (int i = 0; i < 10; ++i) {
    Request r = TestRequest(TestPrompt(100 + i, 20), 20);
    r.tenant = "quiet";
    h.MustSubmit(std::move(r));
  }
  ASSERT_TRUE(h.RunToEnd());
  // While both have work, they get equal shares: the quiet tenant's last ends when about as many of
  // the flood's have.
  TimePoint quiet_end{};
  for (size_t i = 60; i < 70; ++i) quiet_end = std::max(quiet_end, h.client(i).ended_at);
  int flood_done = 0;
  for (size_t i = 0; i < 60; ++i) flood_done += h.client(i).ended_at <= quiet_end ? 1 : 0;
  EXPECT_NEAR(flood_done, 10, 2);
}

TEST(Latency, PriorityGoesFirstAndWaitingLiftsTheRest) {
  EngineOptions options;
  options.scheduler.max_num_seqs = 1;
  options.scheduler.priority_aging = seconds(2);
  options.queue.age = Duration::max();
  EngineHarness h(options, LatencyPool());
  h.MustSubmit(TestRequest(TestPrompt(0, 5), 10));
  Request batch = TestRequest(TestPrompt(1, 5), 10);
  batch.priority = api::Priority::kBatch;
  const size_t low = h.MustSubmit(std::move(batch));
  // An interactive request every 40 ms, each of about 50 ms: more than can be served.
  for (int i = 0; i < 200; ++i) {
    h.At(milliseconds(40 * i), [&h, i] { h.MustSubmit(TestRequest(TestPrompt(10 + i, 5), 10)); });
  }
  ASSERT_TRUE(h.RunToEnd());
  const double started = ToSeconds(h.client(low).timings.queue);
  EXPECT_GT(started, 3.9);  // interactive ones went first ...
  EXPECT_LT(started, 4.3);  // ... until it had waited for two classes
}

// Timings are disjoint and add up; the queue time is the true wait.
TEST(Latency, TimingsAddUpToTheWholeTime) {
  EngineOptions options;
  options.scheduler.max_num_seqs = 1;
  EngineHarness h(options, LatencyPool());
  for (int i = 0; i < 5; ++i) h.MustSubmit(TestRequest(TestPrompt(i, 100), 10));
  ASSERT_TRUE(h.RunToEnd());
  for (size_t i = 0; i < h.size(); ++i) {
    const HarnessClient& c = h.client(i);
    EXPECT_EQ(c.timings.queue + c.timings.prefill + c.timings.decode, c.ended_at - c.sent);
    EXPECT_EQ(c.timings.queue, i == 0 ? Duration(0) : h.client(i - 1).ended_at - h.start());
  }
}

TEST(Latency, DrainRefusesNewWorkAndFinishesWhatWasAccepted) {
  EngineHarness h;
  h.MustSubmit(TestRequest(TestPrompt(1, 10), 30));
  Result<AdmissionPermit> early = h.engine().Admit({});
  ASSERT_TRUE(early.ok());
  h.engine().BeginDrain();
  EXPECT_EQ(h.Submit(TestRequest(TestPrompt(2, 10), 5)).status().reason(), "draining");
  auto stream = std::make_shared<api::TokenStream>(nullptr);
  EXPECT_TRUE(h.engine().Submit(*std::move(early), TestRequest(TestPrompt(3, 10), 5), stream).ok());
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_TRUE(h.client(0).status().ok());
  h.RunUntil([&] { return stream->ended(); });
  EXPECT_TRUE(stream->status().ok());
}

TEST(Latency, RequestsAliveWhenTheEngineIsDestroyedEndWithDraining) {
  std::vector<std::shared_ptr<api::TokenStream>> streams;
  std::vector<std::shared_ptr<RequestControl>> controls;
  {
    EngineHarness h;
    for (int i = 0; i < 20; ++i) {
      Result<AdmissionPermit> permit = h.engine().Admit({});
      streams.push_back(std::make_shared<api::TokenStream>(nullptr));
      controls.push_back(permit->control());
      ASSERT_TRUE(
          h.engine()
              .Submit(*std::move(permit), TestRequest(TestPrompt(i, 10), 30), streams.back())
              .ok());
      if (i < 10) h.RunOnce();  // the others are not even taken in
    }
  }
  for (const auto& stream : streams) {
    ASSERT_TRUE(stream->ended());
    EXPECT_TRUE(stream->status().ok() || stream->status().reason() == "draining")
        << stream->status();
  }
  for (const auto& control : controls) control->Cancel();  // handles may outlive the engine
}

}  // namespace
}  // namespace tutti::engine
