// An encoder in the engine: each request is answered exactly once, to its own client, through
// failures, cancellations and shutdown too.
#include "engine/encoder_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "engine/encoder_instance.h"
#include "engine/testing/allocation_count.h"
#include "engine/testing/encoder_harness.h"

namespace tutti::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::EncoderHarness;
using testing::FakeEncoderRunner;
using testing::TestEncoding;

void ExpectAnswer(EncoderHarness& h, size_t client) {
  ASSERT_TRUE(h.client(client).done());
  ASSERT_TRUE(h.client(client).ok()) << h.client(client).result->status();
  EXPECT_EQ((*h.client(client).result)->values, h.runner().Answer(h.client(client).request));
}

// Nothing is counted for any request: what the books of an empty queue must look like.
void ExpectNothingAdmitted(EncoderEngine& engine) {
  const AdmissionState& admission = *engine.encoder_for_test().admission();
  EXPECT_EQ(admission.unfinished, 0);
  EXPECT_EQ(admission.places, 0);
  EXPECT_EQ(admission.preparing, 0);
  EXPECT_EQ(admission.items, 0);
  EXPECT_EQ(admission.queued_bytes, 0);
  EXPECT_EQ(admission.queued_tokens, 0);
  EXPECT_EQ(admission.small_tokens, 0);
  EXPECT_EQ(admission.result_bytes, 0);
}

// And nothing left of any. Only while no batch can run.
void ExpectNothingHeld(EncoderEngine& engine) {
  ExpectNothingAdmitted(engine);
  EXPECT_EQ(engine.encoder_for_test().queue().waiting().items, 0);
  EXPECT_EQ(engine.encoder_for_test().queue().waiting().tokens, 0);
  EXPECT_EQ(engine.encoder_for_test().queue().waiting().squares, 0);
  EXPECT_TRUE(engine.encoder_for_test().works().empty());
}

TEST(EncoderEngine, AnswersARequestWithOneRowForEachInputInOrder) {
  EncoderHarness h;
  TokenizedRequest request = TestEncoding(100, {7, 300, 3, 90, 1});
  request.prepare = milliseconds(3);
  const size_t id = h.MustSubmit(request);
  EXPECT_TRUE(h.RunOnce());
  ExpectAnswer(h, id);
  const api::EncodeResult& result = **h.client(id).result;
  EXPECT_EQ(result.width, 4);
  EXPECT_THAT(result.tokens, ::testing::ElementsAre(7, 300, 3, 90, 1));
  EXPECT_TRUE(result.rows.empty());
  EXPECT_EQ(result.timings.prepare, milliseconds(3));
  EXPECT_EQ(result.timings.queue, Duration(0));
  EXPECT_EQ(result.timings.inference, h.client(id).took());
  EXPECT_EQ(h.client(id).wakes, 1);
  EXPECT_EQ(h.engine().stats().batches, 1u);
  EXPECT_FALSE(h.loop().RunOnce());
  EXPECT_EQ(h.loop().next_work(), TimePoint::max());
  ExpectNothingHeld(h.engine());
}

TEST(EncoderEngine, EachInputGetsWhatItsRequestWants) {
  EncoderHarness h;
  TokenizedRequest tokens = TestEncoding(100, {5, 2}), scores = TestEncoding(200, {4, 4, 4});
  tokens.output = api::EncodeOutput::kTokens;
  scores.output = api::EncodeOutput::kScores;
  // Pairs: the second half of each item is of the other kind.
  scores.types = {0, 0, 1, 1, 0, 0, 1, 1, 0, 1, 1, 1};
  TokenizedRequest other_types = scores;
  other_types.types[1] = 1;
  for (const TokenizedRequest& request : {tokens, scores, TestEncoding(300, {9}), other_types})
    h.MustSubmit(request);
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(h.engine().stats().batches, 1u);
  for (size_t i = 0; i < h.size(); ++i) ExpectAnswer(h, i);
  const auto result = [&](size_t i) -> const api::EncodeResult& { return **h.client(i).result; };
  EXPECT_EQ(result(0).values.size(), 7u * 4);
  EXPECT_THAT(result(0).rows, ::testing::ElementsAre(5, 2));
  EXPECT_EQ(result(1).width, 1);
  EXPECT_EQ(result(1).values.size(), 3u);
  EXPECT_NE(result(1).values[0], result(3).values[0]);
  EXPECT_EQ(result(1).values[1], result(3).values[1]);
  EXPECT_THAT(h.runner().violations(), ::testing::IsEmpty());
}

TEST(EncoderEngine, ALongRequestIsSplitIntoBatchesAndGathered) {
  EncoderHarness h;
  Random random(2);
  std::vector<int> lengths;
  for (int i = 0; i < api::kMaxEncodeInputs; ++i)
    lengths.push_back(static_cast<int>(random.Between(1, 512)));
  const size_t id = h.MustSubmit(TestEncoding(1, lengths));
  ASSERT_TRUE(h.RunToEnd());
  ExpectAnswer(h, id);
  EXPECT_GT(h.engine().stats().batches, 500u);
  EXPECT_EQ(h.client(id).wakes, 1);
  EXPECT_THAT(h.runner().violations(), ::testing::IsEmpty());
}

TEST(EncoderEngine, RefusesWhatTheModelCannotRead) {
  EncoderHarness h;
  const auto refusal = [&](TokenizedRequest request) {
    Result<size_t> result = h.Submit(std::move(request));
    EXPECT_FALSE(result.ok());
    return result.status();
  };
  EXPECT_EQ(refusal({}).reason(), "invalid_value");
  EXPECT_EQ(refusal(TestEncoding(1, std::vector<int>(2049, 1))).reason(), "invalid_value");
  const Status empty = refusal(TestEncoding(1, {3, 0, 3}));
  EXPECT_EQ(empty.reason(), "empty_prompt");
  EXPECT_EQ(empty.message(), "input 1 has no tokens");
  const Status longer = refusal(TestEncoding(1, {3, 3, 513}));
  EXPECT_EQ(longer.reason(), "context_length_exceeded");
  EXPECT_EQ(longer.message(), "input 2 has 513 tokens; the model reads 512");
  for (const TokenId outside : {-1, 1 << 20}) {
    TokenizedRequest request = TestEncoding(1, {3, 3});
    request.tokens[4] = outside;
    const Status status = refusal(request);
    EXPECT_EQ(status.reason(), "token_out_of_range");
    EXPECT_THAT(status.message(), ::testing::HasSubstr("input 1"));
  }
  TokenizedRequest typed = TestEncoding(1, {3});
  typed.types = {0, 1, 2};
  EXPECT_EQ(refusal(typed).reason(), "unsupported_parameter");
  EncoderLimits limits = FakeEncoderRunner::DefaultLimits();
  limits.labels = 0;
  EncoderHarness vectors_only({}, {}, limits);
  TokenizedRequest scores = TestEncoding(1, {3});
  scores.output = api::EncodeOutput::kScores;
  EXPECT_EQ(vectors_only.Submit(scores).status().message(), "the model gives no scores");
  TokenizedRequest torn = TestEncoding(1, {3, 3});
  torn.lengths[1] = 4;
  EXPECT_EQ(refusal(torn).code(), StatusCode::kInternal);
  torn.lengths[1] = 2;
  EXPECT_EQ(refusal(torn).code(), StatusCode::kInternal);
  torn = TestEncoding(1, {3, 3});
  torn.types = {0, 0};
  EXPECT_EQ(refusal(torn).code(), StatusCode::kInternal);
  TokenizedRequest late = TestEncoding(1, {3});
  late.deadline = h.clock().Now();
  EXPECT_EQ(refusal(late).reason(), "deadline_exceeded");
  ExpectNothingHeld(h.engine());
}

TEST(EncoderEngine, BoundsWhatWaitsInRequestsInputsBytesTokensAndResults) {
  EncoderOptions options;
  options.requests = 4;
  options.items = 10;
  options.bytes = 1000;
  options.tokens = 100;
  options.result_bytes = 160;
  EncoderHarness h(options);
  EncoderEngine& engine = h.engine();
  {
    std::vector<AdmissionPermit> permits;
    for (int i = 0; i < 4; ++i) {
      Result<AdmissionPermit> permit = engine.Admit({.items = 1});
      ASSERT_TRUE(permit.ok());
      permits.push_back(*std::move(permit));
    }
    const Status full = engine.Admit({.items = 1}).status();
    EXPECT_EQ(full.reason(), "queue_full");
    EXPECT_EQ(full.message(), "all 4 places in the queue are taken");
    EXPECT_TRUE(full.retry_after().has_value());
    EXPECT_EQ(engine.stats().preparing, 4);
  }
  ExpectNothingHeld(engine);
  {
    Result<AdmissionPermit> first = engine.Admit({.items = 8, .bytes = 600});
    ASSERT_TRUE(first.ok());
    const Status inputs = engine.Admit({.items = 3}).status();
    EXPECT_EQ(inputs.message(),
              "the waiting requests hold 8 inputs, 3 more would pass the limit of 10");
    EXPECT_EQ(engine.Admit({.items = 1, .bytes = 500}).status().reason(), "queue_full");
    EXPECT_TRUE(engine.Admit({.items = 2, .bytes = 400}).ok());
  }
  ExpectNothingHeld(engine);
  EXPECT_EQ(engine.Admit({.items = 11}).status().reason(), "request_exceeds_capacity");
  EXPECT_EQ(engine.Admit({.items = 1, .bytes = 1001}).status().reason(),
            "request_exceeds_capacity");
  // An empty queue takes any number of tokens that the bounds in results allow; then it is full.
  h.MustSubmit(TestEncoding(1, {60, 60}));
  const Status tokens = h.Submit(TestEncoding(10, {1})).status();
  EXPECT_EQ(tokens.reason(), "queue_full");
  EXPECT_EQ(tokens.message(), "the waiting inputs hold 120 tokens, the most allowed is 100");
  ASSERT_TRUE(h.RunToEnd());
  TokenizedRequest large = TestEncoding(1, {11});
  large.output = api::EncodeOutput::kTokens;
  EXPECT_EQ(h.Submit(large).status().reason(), "request_exceeds_capacity");  // 176 bytes
  h.MustSubmit(TestEncoding(1, {1, 1, 1, 1, 1, 1}));                         // 96
  EXPECT_EQ(h.Submit(TestEncoding(20, {1, 1, 1, 1, 1})).status().reason(), "queue_full");
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(engine.stats().refused, 5u);
  ExpectNothingHeld(engine);
}

TEST(EncoderEngine, RefusesWhatWouldMissItsDeadlineAnyway) {
  EncoderHarness h;
  h.MustSubmit(TestEncoding(1, std::vector<int>(100, 20)));
  ASSERT_TRUE(h.RunToEnd());  // the pace is known now: about 21 us a token
  h.MustSubmit(TestEncoding(1000, std::vector<int>(2000, 20)));
  const auto admit = [&](int items, int ms) {
    return h.engine()
        .Admit({.items = items, .deadline = h.clock().Now() + milliseconds(ms)})
        .status();
  };
  EXPECT_EQ(admit(20, 100).reason(), "overloaded");
  EXPECT_TRUE(admit(20, 900).ok());
  EXPECT_TRUE(admit(1, 100).ok());  // goes ahead of them
  EXPECT_NEAR(ToMillis(h.engine().stats().predicted_wait), 900, 100);
  ASSERT_TRUE(h.RunToEnd());
}

// --- memory ---

#ifndef TUTTI_SANITIZED
TEST(EncoderEngine, ARequestForWhichThereIsNoMemoryLeavesNothingBehind) {
  EncoderHarness h;
  const TokenizedRequest request = TestEncoding(1, std::vector<int>(100, 20));
  testing::AllocationCount& count = testing::allocation_count;
  int failures = 0;
  for (size_t fail_at = 1;; ++fail_at) {
    Result<AdmissionPermit> permit = h.engine().Admit({.items = 100, .bytes = 8000});
    ASSERT_TRUE(permit.ok());
    auto state = std::make_shared<api::EncodingState>(nullptr);
    TokenizedRequest copy = request;
    bool thrown = false;
    count = {.armed = true, .fail_at = fail_at};
    try {
      const Status status = h.engine().Submit(*std::move(permit), std::move(copy), state);
      count.armed = false;
      ASSERT_TRUE(status.ok()) << status;
    } catch (const std::bad_alloc&) {
      count.armed = false;
      thrown = true;
    }
    if (!thrown) break;
    ++failures;
    EXPECT_FALSE(state->done());
    ExpectNothingHeld(h.engine());
  }
  count = {};
  EXPECT_GE(failures, 4);
  EXPECT_TRUE(h.loop().RunOnce());
}

TEST(EncoderEngine, ABatchTakesNoMemoryOnceTheFirstHaveSizedTheBuffers) {
  EncoderHarness h;
  h.runner().trace = false;
  const size_t id = h.MustSubmit(TestEncoding(1, std::vector<int>(2000, 20)));
  h.MustSubmit(TestEncoding(10'000, std::vector<int>(2000, 20)));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(h.loop().RunOnce());
  testing::allocation_count = {.armed = true};
  for (int i = 0; i < 50; ++i) h.loop().RunOnce();
  testing::allocation_count.armed = false;
  EXPECT_EQ(testing::allocation_count.allocations, 0u);
  EXPECT_EQ(h.engine().stats().batches, 60u);
  ASSERT_TRUE(h.RunToEnd());
  ExpectAnswer(h, id);
}
#endif

// --- failures ---

TEST(EncoderEngine, APoisonedInputFailsAloneAndNamesItself) {
  EncoderHarness h;
  std::vector<size_t> ids;
  for (int i = 0; i < 10; ++i) ids.push_back(h.MustSubmit(TestEncoding(100 + 10 * i, {5, 6, 7})));
  TokenizedRequest bad = TestEncoding(900, {4, 4, 4, 4});
  bad.tokens[9] = 777'777;  // in input 2
  const size_t poisoned = h.MustSubmit(bad);
  h.runner().poison = 777'777;
  ASSERT_TRUE(h.RunToEnd());
  for (const size_t id : ids) ExpectAnswer(h, id);
  const Status status = h.client(poisoned).result->status();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_EQ(status.message(), "input 2: poisoned");
  const EncoderStats stats = h.engine().stats();
  EXPECT_EQ(stats.failed_items, 1u);
  // The batch failed, and the poisoned input alone; the later inputs of its request were not tried.
  EXPECT_EQ(stats.failed_batches, 2u);
  EXPECT_LE(stats.retried_items, 32u);
  ExpectNothingHeld(h.engine());
}

TEST(EncoderEngine, ABatchThatFailsOnceIsMadeUpForByEveryItem) {
  EncoderHarness h;
  h.runner().fault = [](const EncodeBatch& batch) {
    return batch.number == 1 ? Internal("a hiccup") : OkStatus();
  };
  for (int i = 0; i < 8; ++i) h.MustSubmit(TestEncoding(10 * i, {5, 6, 7, 8}));
  ASSERT_TRUE(h.RunToEnd());
  for (size_t i = 0; i < h.size(); ++i) ExpectAnswer(h, i);
  EXPECT_EQ(h.engine().stats().retried_items, 32u);
  EXPECT_EQ(h.engine().stats().failed_batches, 1u);
}

TEST(EncoderEngine, ARunnerThatAlwaysFailsFailsEveryRequestOnce) {
  EncoderHarness h;
  h.runner().fault = [](const EncodeBatch&) {
    return Unavailable("overloaded", "no memory on the device");
  };
  for (int i = 0; i < 20; ++i) h.MustSubmit(TestEncoding(10 * i, {5, 6}));
  ASSERT_TRUE(h.RunToEnd());
  for (size_t i = 0; i < h.size(); ++i) {
    EXPECT_EQ(h.client(i).result->status().reason(), "overloaded");
    EXPECT_EQ(h.client(i).result->status().message(), "input 0: no memory on the device");
    EXPECT_EQ(h.client(i).wakes, 1);
  }
  ExpectNothingHeld(h.engine());
}

TEST(EncoderEngine, AValueThatIsNoNumberFailsItsOwnRequestOnly) {
  EncoderHarness h;
  h.runner().nan = 52;
  const size_t bad = h.MustSubmit(TestEncoding(50, {5, 5, 5})),
               good = h.MustSubmit(TestEncoding(70, {5}));
  ASSERT_TRUE(h.RunToEnd());
  ExpectAnswer(h, good);
  EXPECT_EQ(h.client(bad).result->status().message(),
            "input 2: the model gave a value that is not finite");
  EXPECT_EQ(h.client(bad).result->status().reason(), "output_not_finite");
  EXPECT_EQ(h.engine().stats().batches, 1u);  // no second try: the batch itself was well
}

// A request that makes a batch fail does not delay new batches until all of its items were retried.
TEST(EncoderEngine, RepairsAndNewBatchesTakeTurns) {
  EncoderHarness h;
  h.runner().poison = 777'777;
  TokenizedRequest bad = TestEncoding(100'000, std::vector<int>(32, 5));
  bad.tokens.back() = 777'777;
  const size_t poisoned = h.MustSubmit(bad);
  h.RunOnce();  // the batch is down
  std::vector<size_t> ids;
  for (int i = 0; i < 20; ++i) ids.push_back(h.MustSubmit(TestEncoding(10 * i, {5})));
  ASSERT_TRUE(h.RunToEnd());
  for (const size_t id : ids) {
    ExpectAnswer(h, id);
    EXPECT_LT(h.client(id).took(), milliseconds(5));  // one repair of 1.1 ms, one batch of 3
  }
  EXPECT_GT(h.client(poisoned).took(), milliseconds(30));
}

// --- leaving ---

TEST(EncoderEngine, ACancelReachesARequestInEveryPhase) {
  EncoderHarness h;
  // Admitted only.
  Result<AdmissionPermit> permit = h.engine().Admit({.items = 1});
  ASSERT_TRUE(permit.ok());
  auto state = std::make_shared<api::EncodingState>(nullptr);
  { api::Encoding gone(state, permit->control()); }
  ASSERT_TRUE(h.engine().Submit(*std::move(permit), TestEncoding(1, {3}), state).ok());
  EXPECT_FALSE(h.loop().RunOnce());
  ASSERT_TRUE(state->done());
  EXPECT_EQ(state->Take().status().reason(), "cancelled");
  // In the mailbox; in line; and among the items of a failed batch.
  h.client(h.MustSubmit(TestEncoding(10, {3}))).encoding.reset();
  EXPECT_FALSE(h.loop().RunOnce());
  const size_t bulk = h.MustSubmit(TestEncoding(100, std::vector<int>(40, 3)));
  h.runner().fault = [](const EncodeBatch& batch) {
    return batch.items.size() > 1 ? Internal("down") : OkStatus();
  };
  h.RunOnce();
  h.RunOnce();
  EXPECT_EQ(h.runner().batches().size(), 2u);
  h.client(bulk).encoding.reset();
  EXPECT_FALSE(h.loop().RunOnce());
  EXPECT_EQ(h.runner().batches().size(), 2u);
  ExpectNothingHeld(h.engine());
}

TEST(EncoderEngine, ARequestCancelledWhileItsBatchRunsEndsOnceAndHarmsNobody) {
  EncoderHarness h;
  const size_t leaves = h.MustSubmit(TestEncoding(10, std::vector<int>(64, 8)));
  const size_t stays = h.MustSubmit(TestEncoding(100, {8}));
  h.At(Duration(1), [&] { h.client(leaves).encoding->Cancel(); });  // inside the first batch
  ASSERT_TRUE(h.RunToEnd());
  ExpectAnswer(h, stays);
  EXPECT_EQ(h.client(leaves).result->status().reason(), "cancelled");
  EXPECT_EQ(h.engine().stats().batches, 1u);
}

TEST(EncoderEngine, TheEngineEndsWhatIsAliveWhenItIsDestroyed) {
  FakeEncoderRunner runner;
  ManualClock clock;
  auto taken =
      std::make_unique<EncoderEngine>(EncoderOptions(), EncoderDependencies{&runner, &clock});
  Result<api::Encoding> first = taken->Submit(TestEncoding(1, std::vector<int>(100, 3)), nullptr);
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(taken->RunOneStep());
  Result<api::Encoding> second = taken->Submit(TestEncoding(1, {3}), nullptr);  // in the mailbox
  Result<AdmissionPermit> held = taken->Admit({.items = 1});
  ASSERT_TRUE(second.ok() && held.ok());
  taken.reset();
  for (api::Encoding* encoding : {&*first, &*second}) {
    ASSERT_TRUE(encoding->done());
    EXPECT_EQ(encoding->Take().status().reason(), "draining");
  }
  held->control()->Cancel();  // goes nowhere
}

// --- with a thread ---

TEST(EncoderEngine, DrainsWhatItAcceptedAndThenRefuses) {
  FakeEncoderRunner runner;
  SteadyClock clock;
  EncoderEngine engine({}, {&runner, &clock});
  engine.Start();
  std::vector<api::Encoding> live;
  for (int i = 0; i < 50; ++i) {
    Result<api::Encoding> encoding = engine.Submit(TestEncoding(i * 10, {5, 6}), nullptr);
    ASSERT_TRUE(encoding.ok());
    live.push_back(*std::move(encoding));
  }
  EXPECT_TRUE(engine.Drain(clock.Now() + seconds(10)));
  for (api::Encoding& encoding : live) {
    ASSERT_TRUE(encoding.done());
    EXPECT_TRUE(encoding.Take().ok());
  }
  EXPECT_EQ(engine.Submit(TestEncoding(1, {1}), nullptr).status().reason(), "draining");
  ExpectNothingAdmitted(engine);
}

TEST(EncoderEngine, ADrainPastItsDeadlineEndsWhatIsLeft) {
  FakeEncoderRunner runner;
  runner.time = [](const EncodeBatch&) {
    std::this_thread::sleep_for(milliseconds(5));
    return Duration(0);
  };
  SteadyClock clock;
  EncoderEngine engine({}, {&runner, &clock});
  engine.Start();
  Result<api::Encoding> encoding =
      engine.Submit(TestEncoding(1, std::vector<int>(2000, 20)), nullptr);
  ASSERT_TRUE(encoding.ok());
  EXPECT_FALSE(engine.Drain(clock.Now() + milliseconds(50)));
  ASSERT_TRUE(encoding->done());
  EXPECT_EQ(encoding->Take().status().reason(), "draining");
}

TEST(EncoderEngine, LivenessFollowsTheBatches) {
  FakeEncoderRunner runner;
  ManualClock clock;
  std::atomic<bool> hold{true}, inside{false};
  runner.time = [&](const EncodeBatch&) {
    inside = true;
    while (hold.load()) std::this_thread::sleep_for(milliseconds(1));
    return Duration(0);
  };
  EncoderEngine engine({}, {&runner, &clock});
  EXPECT_TRUE(engine.Live().ok());
  engine.Start();
  std::this_thread::sleep_for(milliseconds(5));
  clock.Advance(std::chrono::hours(1));
  Result<api::Encoding> encoding = engine.Submit(TestEncoding(1, {5}), nullptr);
  ASSERT_TRUE(encoding.ok());
  while (!inside) std::this_thread::yield();
  clock.Advance(seconds(9));
  EXPECT_TRUE(engine.Live().ok());
  clock.Advance(seconds(2));
  EXPECT_EQ(engine.Live().reason(), "engine_stalled");
  hold = false;
  while (!encoding->done()) std::this_thread::sleep_for(milliseconds(1));
  // The stream's end is visible before the loop's next heartbeat.
  for (int i = 0; i < 10'000 && !engine.Live().ok(); ++i)
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_TRUE(engine.Live().ok());
}

struct BatchWaker final : Waker {
  std::atomic<int> wakes{0};
  void Wake() noexcept override { ++wakes; }
};

TEST(EncoderEngine, TellsAReaderOnceABatchForAllItsRequests) {
  FakeEncoderRunner runner;
  ManualClock clock;
  EncoderEngine engine({}, {&runner, &clock});
  auto waker = std::make_shared<BatchWaker>();
  std::vector<api::Encoding> live;
  for (int i = 0; i < 64; ++i) {
    Result<api::Encoding> encoding = engine.Submit(TestEncoding(i, {5}), waker);
    ASSERT_TRUE(encoding.ok());
    live.push_back(*std::move(encoding));
  }
  int batches = 0;
  while (engine.RunOneStep()) ++batches;
  EXPECT_EQ(batches, 2);
  EXPECT_EQ(waker->wakes, 2);
}

// U44: a thousand requests with known answers from many threads, a tenth of them cancelled, one
// batch poisoned: results are not swapped, and every request that was not cancelled gets a result
// or an error.
TEST(EncoderEngine, AThousandConcurrentRequestsGetTheirOwnAnswers) {
  constexpr int kThreads = 8, kEach = 125;
  FakeEncoderRunner runner;
  runner.poison = 999'999;
  runner.time = [](const EncodeBatch&) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    return Duration(0);
  };
  SteadyClock clock;
  EncoderEngine engine({}, {&runner, &clock});
  engine.Start();
  std::atomic<int> answered{0}, failed{0}, cancelled{0}, swapped{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Random random(static_cast<uint64_t>(t) + 1);
      struct Sent {
        api::Encoding encoding;
        TokenizedRequest request;
        bool poisoned = false;
      };
      std::vector<Sent> sent;
      for (int i = 0; i < kEach; ++i) {
        std::vector<int> lengths;
        for (int64_t n = random.Between(1, i % 20 == 0 ? 60 : 4); n > 0; --n)
          lengths.push_back(static_cast<int>(random.Between(1, 100)));
        Sent s;
        s.request = TestEncoding((t * kEach + i) * 100, lengths);
        s.poisoned = t == 3 && i == 60;
        if (s.poisoned) s.request.tokens.back() = 999'999;
        Result<api::Encoding> encoding = engine.Submit(s.request, nullptr);
        ASSERT_TRUE(encoding.ok()) << encoding.status();
        s.encoding = *std::move(encoding);
        sent.push_back(std::move(s));
        if (!sent.back().poisoned && random.Chance(0.1)) {
          if (random.Chance(0.5)) std::this_thread::sleep_for(std::chrono::microseconds(300));
          sent.pop_back();  // the client left
          ++cancelled;
        }
      }
      for (Sent& s : sent) {
        while (!s.encoding.done()) std::this_thread::yield();
        const Result<api::EncodeResult> result = s.encoding.Take();
        if (!result.ok()) {
          EXPECT_TRUE(s.poisoned) << result.status();
          ++failed;
        } else if (result->values != runner.Answer(s.request)) {
          ++swapped;
        } else {
          ++answered;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(engine.Drain(clock.Now() + seconds(10)));
  EXPECT_EQ(swapped, 0);
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(answered + failed + cancelled, kThreads * kEach);
  EXPECT_GT(cancelled, 50);
  EXPECT_THAT(runner.violations(), ::testing::IsEmpty());
  ExpectNothingAdmitted(engine);
}

}  // namespace
}  // namespace tutti::engine
