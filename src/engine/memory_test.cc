// Rows U73 N02 N03 and the sharing of n > 1: what the engine does with KV blocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/random.h"
#include "engine/decoder_instance.h"
#include "engine/testing/engine_harness.h"

namespace tutti::engine {
namespace {

using testing::EngineHarness;
using testing::FakeModelOptions;
using testing::HarnessClient;
using testing::TestPrompt;
using testing::TestRequest;

FakeModelOptions Pool(int blocks) {
  FakeModelOptions model;
  model.limits.kv_blocks = blocks;
  return model;
}

EngineOptions Patient(int max_num_seqs = 8) {
  EngineOptions options;
  options.scheduler.max_num_seqs = max_num_seqs;
  options.queue.requests = 100'000;
  options.queue.age = Duration::max();
  options.queue.prompt_tokens_per_kv_token = 1e9;
  return options;
}

// U73: KV pool at 25 % of need, 64 requests: preemptions > 0, all finish, every output equals its
// solo output, waste
// <= one block per sequence.
TEST(Memory, AQuarterOfTheNeedServesAll64ByPreemption) {
  for (const bool cache : {true, false}) {
    EngineOptions options = Patient(64);
    options.scheduler.prefix_cache = cache;
    // 64 x (20 prompt + 172 output) tokens = 64 x 6 blocks.
    EngineHarness h(options, Pool(64 * 6 / 4));
    for (int i = 0; i < 64; ++i)
      h.MustSubmit(
          TestRequest(TestPrompt(i, 20), 172, i % 2 == 0 ? 0.0 : 0.9, static_cast<uint64_t>(i)));
    while (h.RunOnce()) {
      const EngineStats s = h.engine().stats();
      ASSERT_LE(s.kv_waste_tokens, int64_t{s.running} * kBlockTokens);
    }
    EXPECT_EQ(h.FindFault(), "");
    EXPECT_GT(h.engine().stats().preemptions, 0u);
  }
}

// N02: no_evict never preempts; pack runs more sequences at equal memory.
TEST(Memory, NoEvictNeverPreemptsAndPackRunsMoreAtOnce) {
  std::map<Admission, int> most;
  for (const Admission admission : {Admission::kNoEvict, Admission::kPack}) {
    EngineOptions options = Patient(32);
    options.scheduler.admission = admission;
    EngineHarness h(options, Pool(48));
    Random random(2);
    for (int i = 0; i < 300; ++i) {
      h.MustSubmit(TestRequest(TestPrompt(i, 1 + static_cast<int>(random.Below(80))),
                               1 + static_cast<int>(random.Below(200))));
    }
    int peak = 0;
    while (h.RunOnce()) peak = std::max(peak, h.engine().stats().running);
    most[admission] = peak;
    EXPECT_EQ(h.FindFault(), "");
    if (admission == Admission::kNoEvict) {
      EXPECT_EQ(h.engine().stats().preemptions, 0u);
    }
  }
  EXPECT_GT(most[Admission::kPack], most[Admission::kNoEvict]);
}

// N02: a large request is overtaken at most 16 times.
TEST(Memory, ALargeRequestIsOvertakenAtMost16Times) {
  EngineHarness h(Patient(8), Pool(32));
  Random random(4);
  // A steady supply of small requests; the large one needs nearly the whole pool.
  int sent = 0;
  for (int i = 0; i < 400; ++i) {
    h.At(std::chrono::milliseconds(10 * i), [&h, &sent, &random] {
      h.MustSubmit(TestRequest(TestPrompt(++sent, 33 + static_cast<int>(random.Below(60))),
                               10 + static_cast<int>(random.Below(30))));
    });
  }
  size_t large = 0;
  h.At(std::chrono::milliseconds(100),
       [&] { large = h.MustSubmit(TestRequest(TestPrompt(9999, 28 * kBlockTokens), 20)); });
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(h.FindFault(), "");
  const TimePoint large_started = h.client(large).sent + h.client(large).timings.queue;
  int overtook = 0;
  for (size_t i = large + 1; i < h.size(); ++i)
    overtook += h.client(i).sent + h.client(i).timings.queue < large_started ? 1 : 0;
  EXPECT_GT(overtook, 0);  // it did not block the line at once
  EXPECT_LE(overtook, 16);
}

// N02: no request is preempted a 4th time in 10,000. A pool that is always too small, long outputs.
TEST(Memory, NobodyIsPreemptedAFourthTimeIn10000) {
  struct Count : EngineObserver {
    int most = 0, total = 0, ended = 0;
    void OnFinished(const RequestEvent& e) override {
      most = std::max(most, e.preemptions);
      total += e.preemptions;
      ended += e.status.ok() ? 1 : 0;
    }
  } count;
  FakeModelOptions model = Pool(14);
  model.sample_rows = false;
  ManualClock clock;
  testing::TimingRunner runner(model, {}, &clock);
  testing::FakeTokenText text;
  EngineOptions options = Patient(10);
  Engine engine(options, {&runner, &text, &clock, &count});
  Random random(6);
  std::vector<api::Generation> live;
  for (int i = 0; i < 10'000; ++i) {
    Result<api::Generation> g =
        engine.Submit(TestRequest(TestPrompt(i, 1 + static_cast<int>(random.Below(30))),
                                  30 + static_cast<int>(random.Below(100))),
                      nullptr);
    ASSERT_TRUE(g.ok()) << g.status();
    live.push_back(*std::move(g));
    if (live.size() >= 100) {
      while (engine.RunOneStep()) {
      }
      live.clear();
    }
  }
  while (engine.RunOneStep()) {
  }
  EXPECT_EQ(count.ended, 10'000);
  EXPECT_GT(count.total, 1000);
  EXPECT_EQ(count.most, 3);
  EXPECT_THAT(runner.violations(), ::testing::IsEmpty());
}

// N03: 100 requests with one 512-token system prompt prefill it once.
TEST(Memory, ACommonSystemPromptIsComputedOnce) {
  EngineHarness h(Patient(8), Pool(256));
  const std::vector<TokenId> system = TestPrompt(1, 512);
  int64_t own_tokens = 0;
  for (int i = 0; i < 100; ++i) {
    std::vector<TokenId> prompt = system;
    const std::vector<TokenId> user = TestPrompt(100 + i, 10 + i % 30);
    prompt.insert(prompt.end(), user.begin(), user.end());
    own_tokens += static_cast<int64_t>(user.size()) + 9;  // ten tokens drawn, nine of them computed
    h.MustSubmit(TestRequest(std::move(prompt), 10));
    if (i == 0) {
      h.RunUntil([&] { return !h.client(0).choices[0].tokens.empty(); });
    }
  }
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(h.FindFault(), "");
  int64_t beyond = 0;  // a few users begin alike by chance: that is reused too
  for (size_t i = 1; i < h.size(); ++i) {
    EXPECT_GE(h.client(i).usage.cached_tokens, 512);
    beyond += h.client(i).usage.cached_tokens - 512;
  }
  EXPECT_EQ(static_cast<int64_t>(h.runner().tokens_computed()), 512 + own_tokens - beyond);
  EXPECT_EQ(h.client(0).usage.cached_tokens, 0);
}

// N03: TTFT of a fully cached prompt <= 1.5 steps; the last block is reused in part.
TEST(Memory, AFullyCachedPromptAnswersWithinOneStep) {
  for (const int length : {31, 32, 33, 64, 500, 512}) {
    EngineHarness h(Patient(), Pool(64));
    h.MustSubmit(TestRequest(TestPrompt(1, length), 40));
    ASSERT_TRUE(h.RunToEnd());
    const Duration step = testing::Percentile(testing::Gaps(h.client(0).choices[0]), 0.5);
    h.MustSubmit(TestRequest(TestPrompt(1, length), 40));
    ASSERT_TRUE(h.RunToEnd());
    EXPECT_EQ(h.client(1).usage.cached_tokens, length - 1) << length;
    EXPECT_LE(h.client(1).first_token() * 2, step * 3) << length;
    EXPECT_EQ(h.FindFault(), "");
  }
}

// N03: with the hash forced to 8 bits no wrong reuse in 10,000 requests. (The fake model sees
// foreign KV at once.)
TEST(Memory, ForcedHashCollisionsGiveNoWrongReuseIn10000Requests) {
  EngineOptions options = Patient(8);
  options.prefix_hash_bits = 8;
  FakeModelOptions model = Pool(400);
  model.sample_rows = false;
  ManualClock clock;
  testing::TimingRunner runner(model, {}, &clock);
  testing::FakeTokenText text;
  Engine engine(options, {&runner, &text, &clock});
  Random random(8);
  uint64_t wrong = 0;
  for (int batch = 0; batch < 1250; ++batch) {
    std::vector<api::Generation> live;
    std::vector<Request> requests;
    for (int i = 0; i < 8; ++i) {
      std::vector<TokenId> prompt;
      for (uint64_t part = 1 + random.Below(5); part > 0; --part) {
        const std::vector<TokenId> piece = TestPrompt(static_cast<int>(random.Below(10)), 32);
        prompt.insert(prompt.end(), piece.begin(), piece.end());
      }
      prompt.resize(prompt.size() - random.Below(32));
      Request request = TestRequest(std::move(prompt), 3);
      request.tenant = random.Chance(0.5) ? "a" : "b";
      requests.push_back(request);
      Result<api::Generation> g = engine.Submit(std::move(request), nullptr);
      ASSERT_TRUE(g.ok());
      live.push_back(*std::move(g));
    }
    while (engine.RunOneStep()) {
    }
    for (size_t i = 0; i < live.size(); ++i) {
      std::vector<TokenId> tokens;
      while (const api::StreamEvent* e = live[i].Next()) {
        if (e->kind == api::StreamEvent::Kind::kToken) tokens.push_back(e->token);
      }
      wrong +=
          tokens == runner.Solo(requests[i].prompt, {&requests[i].sampling, {}, {}, {}, 17, 0}, 3)
              ? 0
              : 1;
    }
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_THAT(runner.violations(), ::testing::IsEmpty());
  EXPECT_GT(engine.stats().prefix_hit_tokens, 100'000u);
}

TEST(Memory, TenantsSaltsAndRefusalsToReuseAreKeptApart) {
  EngineHarness h(Patient(), Pool(64));
  const auto send = [&](const char* tenant, const char* salt, bool use) {
    Request r = TestRequest(TestPrompt(1, 200), 4);
    r.tenant = tenant;
    r.cache_salt = salt;
    r.use_prefix_cache = use;
    const size_t i = h.MustSubmit(std::move(r));
    EXPECT_TRUE(h.RunToEnd());
    return h.client(i).usage.cached_tokens;
  };
  EXPECT_EQ(send("a", "", true), 0);
  EXPECT_EQ(send("a", "", true), 199);
  EXPECT_EQ(send("b", "", true), 0);
  EXPECT_EQ(send("a", "x", true), 0);
  EXPECT_EQ(send("a", "", false), 0);
  EXPECT_EQ(h.FindFault(), "");
}

// U86: n sequences share the prompt's blocks; choice i draws from stream (seed, i).
TEST(Memory, ChoicesShareThePromptsBlocks) {
  for (const bool cache : {true, false}) {
    for (const int length : {1, 31, 32, 33, 200}) {
      EngineOptions options = Patient(8);
      options.scheduler.prefix_cache = cache;
      EngineHarness h(options, Pool(64));
      Request r = TestRequest(TestPrompt(3, length), 12, 0.9);
      r.n = 8;
      h.MustSubmit(std::move(r));
      int most = 0;
      while (h.RunOnce()) most = std::max(most, h.engine().stats().kv_blocks_active);
      EXPECT_EQ(h.FindFault(), "");
      std::set<std::vector<TokenId>> distinct;
      for (const auto& choice : h.client(0).choices) distinct.insert(choice.tokens);
      EXPECT_GE(distinct.size(), 7u);
      const int shared = (length - 1) / kBlockTokens;
      EXPECT_LE(most, shared + 8 * (BlocksFor(length + 12) - shared));
      // The prompt once, its last token again for each other choice, and what was drawn.
      if (length > 1) {
        EXPECT_EQ(h.runner().tokens_computed(), static_cast<uint64_t>(length + 7 + 8 * 11));
      }
      EXPECT_EQ(h.client(0).usage.completion_tokens, 8 * 12);
    }
  }
}

TEST(Memory, ARequestThatCanNeverFitIsRefusedWithTheNumbers) {
  EngineHarness h({}, Pool(32));
  const Status prompt = h.Submit(TestRequest(TestPrompt(1, 41 * kBlockTokens), 1)).status();
  EXPECT_EQ(prompt.reason(), "request_exceeds_capacity");
  EXPECT_EQ(prompt.message(), "prompt needs 41 KV blocks, pool has 32; raise --kv-cache-bytes");
  const Status output = h.Submit(TestRequest(TestPrompt(1, 20), 33 * kBlockTokens)).status();
  EXPECT_EQ(output.reason(), "request_exceeds_capacity");
  EXPECT_EQ(h.Submit(TestRequest(TestPrompt(1, 5000), 1)).status().reason(),
            "context_length_exceeded");
  EXPECT_EQ(h.Submit(TestRequest({}, 1)).status().reason(), "empty_prompt");
  EXPECT_EQ(h.Submit(TestRequest({64}, 1)).status().reason(), "token_out_of_range");
  EXPECT_EQ(h.Submit(TestRequest({-1}, 1)).status().reason(), "token_out_of_range");
  EXPECT_EQ(h.engine().Load().waiting, 0);  // refusals keep no place
  // A request that just fits runs to its end: the last token is drawn and never computed.
  h.MustSubmit(TestRequest(TestPrompt(1, 31 * kBlockTokens), kBlockTokens + 1));
  // Without max_tokens, the rest of the context, or of the pool where that is less.
  Request open = TestRequest(TestPrompt(2, 100), 1);
  open.sampling.max_tokens.reset();
  const size_t i = h.MustSubmit(std::move(open));
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_TRUE(h.client(0).status().ok());
  EXPECT_EQ(h.client(i).choices[0].tokens.size(), static_cast<size_t>(32 * kBlockTokens + 1 - 100));
}

}  // namespace
}  // namespace tutti::engine
