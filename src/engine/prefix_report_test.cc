// Row R27: the cache explains how much of a prompt it had, and why not more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/policy/prefix_cause.h"
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
using Cause = api::PrefixReport::Cause;

FakeModelOptions SmallModel(int blocks, int states = 0, int window = 0) {
  FakeModelOptions model;
  model.limits.kv_blocks = blocks;
  model.limits.state_slots = states;
  model.limits.window = window;
  model.limits.window_blocks = window > 0 ? 24 : 0;
  model.limits.max_step_tokens = 600;
  return model;
}

// The report of a request that asks for one.
api::PrefixReport Explained(EngineHarness& h, Request request) {
  request.explain_prefix = true;
  const size_t i = h.MustSubmit(std::move(request));
  CHECK(h.RunToEnd());
  CHECK(h.client(i).usage.prefix != nullptr);
  EXPECT_EQ(h.client(i).usage.prefix->memory_tokens + h.client(i).usage.prefix->disk_tokens,
            h.client(i).usage.cached_tokens);
  return *h.client(i).usage.prefix;
}

TEST(PrefixReport, IsMadeOnRequestAlone) {
  EngineHarness h({}, SmallModel(64));
  h.TokensComputed(TestRequest(TestPrompt(1, 100), 2));
  EXPECT_EQ(h.client(0).usage.prefix, nullptr);
}

TEST(PrefixReport, NeverSeenThenFound) {
  EngineHarness h({}, SmallModel(64));
  const std::vector<TokenId> prompt = TestPrompt(1, 100);
  api::PrefixReport report = Explained(h, TestRequest(prompt, 2));
  EXPECT_EQ(report.cause, Cause::kNeverSeen);
  EXPECT_EQ(report.first_difference, -1) << "nothing was there to differ from";
  report = Explained(h, TestRequest(prompt, 2));
  EXPECT_EQ(report.cause, Cause::kNone);
  EXPECT_EQ(report.memory_tokens, 99);
  EXPECT_EQ(report.first_difference, -1);
}

TEST(PrefixReport, ShowsWhereThePromptDiffers) {
  EngineHarness h({}, SmallModel(64));
  std::vector<TokenId> prompt = TestPrompt(1, 100);
  h.TokensComputed(TestRequest(prompt, 2));
  prompt[70] = prompt[70] == 5 ? 6 : 5;
  const api::PrefixReport report = Explained(h, TestRequest(prompt, 2));
  EXPECT_EQ(report.cause, Cause::kNeverSeen);
  EXPECT_EQ(report.first_difference, 70);
  std::string text;
  for (size_t i = 70; i < 86; ++i) h.text().AppendBytes(prompt[i], false, false, text);
  EXPECT_EQ(report.text, text);
}

TEST(PrefixReport, Evicted) {
  EngineHarness h({}, SmallModel(12));
  const std::vector<TokenId> prompt = TestPrompt(1, 200);
  h.TokensComputed(TestRequest(prompt, 2));
  h.TokensComputed(TestRequest(TestPrompt(2, 370), 2));
  EXPECT_EQ(Explained(h, TestRequest(prompt, 2)).cause, Cause::kEvicted);
}

TEST(PrefixReport, DifferentSaltButNeverAnotherTenant) {
  EngineHarness h({}, SmallModel(64));
  const auto request = [&](const char* tenant, const char* salt) {
    Request r = TestRequest(TestPrompt(1, 100), 2);
    r.tenant = tenant;
    r.cache_salt = salt;
    return r;
  };
  h.TokensComputed(request("a", "s"));
  EXPECT_EQ(Explained(h, request("b", "s")).cause, Cause::kNeverSeen);
  EXPECT_EQ(Explained(h, request("a", "t")).cause, Cause::kDifferentSalt);
}

TEST(PrefixReport, OffWhereTheCacheIsNotUsed) {
  EngineHarness h({}, SmallModel(64));
  Request r = TestRequest(TestPrompt(1, 100), 2);
  r.use_prefix_cache = false;
  EXPECT_EQ(Explained(h, std::move(r)).cause, Cause::kOff);
}

TEST(PrefixReport, NotBlockAlignedWhereAStateIsMissing) {
  EngineHarness h({}, SmallModel(64, /*states=*/8));
  const std::vector<TokenId> prompt = TestPrompt(1, 200);
  h.TokensComputed(TestRequest(prompt, 2));
  const std::vector<TokenId> part(prompt.begin(), prompt.begin() + 150);
  const api::PrefixReport report = Explained(h, TestRequest(TextOf(part, TestPrompt(2, 30)), 2));
  EXPECT_EQ(report.cause, Cause::kNotBlockAligned);
  EXPECT_EQ(report.first_difference, 150);
}

TEST(PrefixReport, TellsTheDiskFromMemory) {
  const FakeModelOptions model = SmallModel(64);
  FakePrefixStore store(model);
  const std::vector<TokenId> prompt = TestPrompt(1, 200);
  {
    EngineHarness h({}, model, {}, false, nullptr, std::nullopt, &store);
    h.TokensComputed(TestRequest(prompt, 2));
  }
  {
    EngineHarness h({}, model, {}, false, nullptr, std::nullopt, &store);
    api::PrefixReport report = Explained(h, TestRequest(prompt, 2));
    EXPECT_EQ(report.disk_tokens, 192);
    EXPECT_EQ(report.memory_tokens, 0);
    EXPECT_EQ(report.cause, Cause::kNeverSeen) << "the end of the prompt";
    report = Explained(h, TestRequest(prompt, 2));
    EXPECT_EQ(report.disk_tokens, 0);
    EXPECT_EQ(report.memory_tokens, 199);
  }
  store.fails = [] { return true; };
  EngineHarness h({}, model, {}, false, nullptr, std::nullopt, &store);
  EXPECT_EQ(Explained(h, TestRequest(prompt, 2)).cause, Cause::kOnDiskFailed);
}

TEST(PrefixReport, TheFirstCauseThatHoldsIsNamed) {
  const PrefixView all{.cached = 64,
                       .reusable = 200,
                       .looked_up = true,
                       .known = 100,
                       .load_failed = true,
                       .evicted = true,
                       .other_salt = true};
  PrefixView v = all;
  EXPECT_EQ(CauseOf(v), Cause::kNotBlockAligned);
  v.windowed = true;
  EXPECT_EQ(CauseOf(v), Cause::kEvicted) << "of its window blocks";
  v.known = 64;
  EXPECT_EQ(CauseOf(v), Cause::kOnDiskFailed);
  v.load_failed = false;
  EXPECT_EQ(CauseOf(v), Cause::kEvicted);
  v.evicted = false;
  EXPECT_EQ(CauseOf(v), Cause::kDifferentSalt);
  v.other_salt = false;
  EXPECT_EQ(CauseOf(v), Cause::kNeverSeen);
  v.cached = 200;
  EXPECT_EQ(CauseOf(v), Cause::kNone);
  v.looked_up = false;
  EXPECT_EQ(CauseOf(v), Cause::kOff);
}

}  // namespace
}  // namespace tutti::engine
