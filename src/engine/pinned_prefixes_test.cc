// Row N03: pinned prefixes survive pressure and a restart, within their share of the pool.
#include "engine/pinned_prefixes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/decoder_instance.h"
#include "engine/invariants.h"
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

FakeModelOptions PinnedModel(int blocks, int states = 0, int window = 0) {
  FakeModelOptions model;
  model.limits.kv_blocks = blocks;
  model.limits.state_slots = states;
  model.limits.window = window;
  model.limits.window_blocks = window > 0 ? blocks / 2 : 0;
  model.limits.max_step_tokens = 256;
  model.limits.context = 16 * kBlockTokens;
  return model;
}

EngineOptions PinnedOptions() {
  EngineOptions options;
  options.scheduler.max_num_seqs = 4;
  options.scheduler.prefill_chunk_alone = 128;
  return options;
}

Request PinRequest(std::vector<TokenId> prompt, const std::string& id,
                   Duration ttl = std::chrono::hours(1), const std::string& tenant = "t") {
  Request request = TestRequest(std::move(prompt), 0);
  request.score_only = true;
  request.tenant = tenant;
  request.pin = {
      .id = id,
      .ttl = ttl,
      .expires_unix_ms =
          UnixMillis() + std::chrono::duration_cast<std::chrono::milliseconds>(ttl).count()};
  return request;
}

Request Asks(std::vector<TokenId> prompt, const std::string& tenant = "t") {
  Request request = TestRequest(std::move(prompt), 3);
  request.tenant = tenant;
  return request;
}

// Fills the pool several times.
void Press(EngineHarness& h) {
  for (int i = 100; i < 120; ++i) h.MustSubmit(Asks(TestPrompt(i, 300)));
  CHECK(h.RunToEnd());
}

std::string Broken(EngineHarness& h) {
  EngineSnapshot snapshot;
  TakeSnapshot(h.engine().decoder_for_test(), &snapshot);
  return FindViolation(snapshot);
}

TEST(PinnedPrefixes, LeaveRoomForOneContext) {
  EXPECT_EQ(MaxPinnedBlocks(100, 10), 50);
  EXPECT_EQ(MaxPinnedBlocks(100, 80), 20);
  EXPECT_EQ(MaxPinnedBlocks(100, 100), 0);
  EXPECT_EQ(MaxPinnedBlocks(100, 120), 0);
}

TEST(PinnedPrefixes, SurvivePressure) {
  for (const int states : {0, 12}) {
    for (const int window : {0, 50}) {
      EngineHarness h(PinnedOptions(), PinnedModel(64, states, window));
      const std::vector<TokenId> system = TestPrompt(1, 200);
      EXPECT_EQ(h.TokensComputed(PinRequest(system, "a")), 199);
      EXPECT_EQ(h.client(0).usage.pinned_tokens, 192);
      EXPECT_EQ(h.client(0).usage.completion_tokens, 0);
      Press(h);
      EXPECT_GT(h.engine().stats().kv_evicted_blocks, 64u);
      EXPECT_EQ(h.engine().stats().kv_blocks_pinned, 6);
      EXPECT_EQ(h.TokensComputed(Asks(TextOf(system, TestPrompt(2, 30)))), 230 - 192 + 2);
      EXPECT_EQ(Broken(h), "");
      ASSERT_EQ(h.engine().Pins("t").size(), 1u);
      EXPECT_EQ(h.engine().Pins("t")[0].id, "a");
      EXPECT_EQ(h.engine().Pins("t")[0].tokens, 192);
    }
  }
}

TEST(PinnedPrefixes, EndWithTheirTime) {
  EngineHarness h(PinnedOptions(), PinnedModel(64));
  h.TokensComputed(PinRequest(TestPrompt(1, 200), "a", std::chrono::seconds(20)));
  h.clock().Advance(std::chrono::seconds(21));
  h.RunOnce();
  EXPECT_TRUE(h.engine().Pins("t").empty());
  EXPECT_EQ(h.engine().decoder_for_test().pool().active(), 0);
  EXPECT_EQ(h.FindFault(), "");
}

TEST(PinnedPrefixes, EndOnRequestOfTheirTenantAlone) {
  EngineHarness h(PinnedOptions(), PinnedModel(64, 12, 50));
  h.TokensComputed(PinRequest(TestPrompt(1, 200), "a"));
  EXPECT_TRUE(h.engine().Pins("other").empty());
  EXPECT_FALSE(h.engine().Unpin("other", "a"));
  EXPECT_FALSE(h.engine().Unpin("t", "b"));
  EXPECT_TRUE(h.engine().Unpin("t", "a"));
  EXPECT_FALSE(h.engine().Unpin("t", "a"));
  h.RunOnce();
  EXPECT_TRUE(h.engine().Pins("t").empty());
  EXPECT_EQ(h.FindFault(), "");
}

TEST(PinnedPrefixes, HaveAShareOfThePool) {
  EngineHarness h(PinnedOptions(), PinnedModel(64));
  // 32 blocks may be pinned, 16 of one tenant.
  h.TokensComputed(PinRequest(TestPrompt(1, 300), "a"));
  const Result<size_t> more = h.Submit(PinRequest(TestPrompt(2, 300), "b"));
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.status().reason(), "pin_limit");
  EXPECT_THAT(more.status().message(), ::testing::HasSubstr("224 more may be pinned"));
  h.TokensComputed(PinRequest(TestPrompt(3, 200), "c"));
  h.TokensComputed(PinRequest(TestPrompt(4, 400), "d", std::chrono::hours(1), "u"));
  EXPECT_FALSE(h.Submit(PinRequest(TestPrompt(5, 200), "e", std::chrono::hours(1), "v")).ok());
  Press(h);
  EXPECT_EQ(Broken(h), "");
  EXPECT_EQ(h.engine().stats().kv_blocks_pinned, 9 + 6 + 12);
}

TEST(PinnedPrefixes, AreRefusedWhereTheyCannotBe) {
  EngineHarness h(PinnedOptions(), PinnedModel(16));
  EXPECT_EQ(h.Submit(PinRequest(TestPrompt(1, 100), "a")).status().reason(), "pin_limit")
      << "the pool holds one context";
  EngineHarness large(PinnedOptions(), PinnedModel(64));
  EXPECT_EQ(large.Submit(PinRequest(TestPrompt(1, 32), "a")).status().reason(), "invalid_value");
  Request bypass = PinRequest(TestPrompt(1, 100), "a");
  bypass.use_prefix_cache = false;
  EXPECT_EQ(large.Submit(std::move(bypass)).status().reason(), "invalid_value");
}

TEST(PinnedPrefixes, TwiceCostsNothing) {
  EngineHarness h(PinnedOptions(), PinnedModel(64));
  const std::vector<TokenId> prompt = TestPrompt(1, 97);
  EXPECT_EQ(h.TokensComputed(PinRequest(prompt, "a")), 96);
  EXPECT_EQ(h.TokensComputed(PinRequest(prompt, "b")), 1);
  EXPECT_EQ(h.client(1).usage.pinned_tokens, 96);
  h.engine().Unpin("t", "a");
  Press(h);
  EXPECT_EQ(h.TokensComputed(Asks(TextOf(prompt, TestPrompt(2, 20)))), 117 - 96 + 2);
}

TEST(PinnedPrefixes, SurviveARestart) {
  for (const int states : {0, 12}) {
    const FakeModelOptions model = PinnedModel(64, states, 50);
    FakePrefixStore store(model);
    const std::vector<TokenId> system = TestPrompt(1, 200);
    {
      EngineHarness h(PinnedOptions(), model, {}, false, nullptr, std::nullopt, &store);
      h.TokensComputed(PinRequest(system, "a"));
      h.TokensComputed(PinRequest(TestPrompt(2, 200), "b"));
      h.engine().Unpin("t", "b");
      h.RunOnce();
    }
    for (const bool files : {true, false}) {
      if (!files) store.Clear();  // it is then computed again
      EngineHarness h(PinnedOptions(), model, {}, false, nullptr, std::nullopt, &store);
      ASSERT_TRUE(h.RunUntil([&] { return !h.engine().Pins("t").empty(); }));
      Press(h);
      ASSERT_EQ(h.engine().Pins("t").size(), 1u) << files;
      EXPECT_EQ(h.engine().Pins("t")[0].id, "a");
      EXPECT_EQ(h.TokensComputed(Asks(TextOf(system, TestPrompt(3, 30)))), 230 - 192 + 2);
      EXPECT_EQ(Broken(h), "");
    }
  }
}

// Regression: pins under an adapter ended with the process.
TEST(PinnedPrefixes, OfAnAdapterComeBackWithIt) {
  const FakeModelOptions model = PinnedModel(64);
  FakePrefixStore store(model);
  const std::vector<TokenId> system = TestPrompt(1, 200);
  const auto adapted = [](Request request, const char* digest) {
    request.adapter = std::make_shared<testing::FakeAdapter>(digest);
    return request;
  };
  {
    EngineHarness h(PinnedOptions(), model, {}, false, nullptr, std::nullopt, &store);
    h.TokensComputed(adapted(PinRequest(system, "a"), "x"));
    h.TokensComputed(adapted(PinRequest(TestPrompt(2, 70), "b"), "y"));
    h.TokensComputed(adapted(PinRequest(TestPrompt(3, 70), "c"), "y"));
  }
  EngineHarness h(PinnedOptions(), model, {}, false, nullptr, std::nullopt, &store);
  h.RunOnce();
  EXPECT_TRUE(h.engine().Pins("t").empty()) << "the adapters are not there";
  EXPECT_EQ(store.Pins().size(), 3u);
  EXPECT_FALSE(h.engine().Unpin("u", "c"));
  EXPECT_TRUE(h.engine().Unpin("t", "c")) << "also before it is back";
  EXPECT_FALSE(h.engine().Unpin("t", "c"));
  for (int twice = 0; twice < 2; ++twice)
    h.engine().RestorePins(std::make_shared<testing::FakeAdapter>("x"), "tuned");
  ASSERT_TRUE(h.RunUntil([&] { return !h.engine().Pins("t").empty(); }));
  Press(h);
  ASSERT_EQ(h.engine().Pins("t").size(), 1u);
  EXPECT_EQ(h.engine().Pins("t")[0].id, "a");
  EXPECT_EQ(h.engine().Pins("t")[0].model, "tuned");
  EXPECT_EQ(store.Pins().size(), 2u) << "the other adapter may still come";
  const std::vector<TokenId> text = TextOf(system, TestPrompt(4, 30));
  EXPECT_EQ(h.TokensComputed(adapted(Asks(text), "x")), 230 - 192 + 2);
  EXPECT_EQ(h.TokensComputed(Asks(text)), 232) << "the base has not computed it";
  EXPECT_EQ(Broken(h), "");
}

// Regression: a start with a small queue dropped the pins that did not fit into it.
TEST(PinnedPrefixes, ComeBackThroughASmallQueue) {
  const FakeModelOptions model = PinnedModel(64);
  FakePrefixStore store(model);
  for (int i = 0; i < 12; ++i) {
    store.KeepPin({.id = "p" + std::to_string(i),
                   .tenant = "t",
                   .tokens = TestPrompt(i, 40),
                   .expires_unix_ms = UnixMillis() + 3'600'000});
  }
  EngineOptions options = PinnedOptions();
  options.scheduler.max_num_seqs = 1;
  options.queue.requests = 2;
  EngineHarness h(options, model, {}, false, nullptr, std::nullopt, &store);
  EXPECT_EQ(store.Pins().size(), 12u) << "none is dropped";
  EXPECT_TRUE(h.engine().Unpin("t", "p11")) << "also before it is back";
  EXPECT_TRUE(h.RunUntil([&] { return h.engine().Pins("t").size() == 11; }));
  EXPECT_EQ(store.Pins().size(), 11u);
  EXPECT_EQ(Broken(h), "");
}

TEST(PinnedPrefixes, AreNotRestoredAfterTheirTime) {
  const FakeModelOptions model = PinnedModel(64);
  FakePrefixStore store(model);
  store.KeepPin(
      {.id = "old", .tenant = "t", .tokens = TestPrompt(1, 200), .expires_unix_ms = 1000});
  store.KeepPin({.id = "older",
                 .tenant = "t",
                 .adapter = "x",
                 .tokens = TestPrompt(1, 200),
                 .expires_unix_ms = 1000});
  store.KeepPin({.id = "bad", .tenant = "t", .tokens = {9999}, .expires_unix_ms = INT64_MAX / 2});
  EngineHarness h(PinnedOptions(), model, {}, false, nullptr, std::nullopt, &store);
  h.RunOnce();
  EXPECT_TRUE(h.engine().Pins("t").empty());
  EXPECT_TRUE(store.Pins().empty());
}

}  // namespace
}  // namespace tutti::engine
