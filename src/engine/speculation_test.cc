// Row U75: draft tokens change the time an answer takes, and nothing of the answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/decoder_instance.h"
#include "engine/invariants.h"
#include "engine/testing/engine_harness.h"

namespace tutti::engine {
namespace {

using std::chrono::milliseconds;
using testing::EngineHarness;
using testing::FakeModelOptions;
using testing::HarnessClient;
using testing::TestPrompt;
using testing::TestRequest;

FakeModelOptions Circles(bool sample_rows = true) {
  FakeModelOptions model;
  model.limits.kv_blocks = 512;
  model.sample_rows = sample_rows;
  model.repeats_itself = true;
  return model;
}

EngineOptions WithSequences(int max_num_seqs, bool speculate) {
  EngineOptions options;
  options.scheduler.max_num_seqs = max_num_seqs;
  options.scheduler.speculate = speculate;
  options.queue.age = Duration::max();
  return options;
}

void ExpectEqual(HarnessClient& a, HarnessClient& b, const std::string& what) {
  ASSERT_TRUE(a.done() && b.done()) << what;
  EXPECT_EQ(a.status(), b.status()) << what;
  EXPECT_EQ(a.usage.completion_tokens, b.usage.completion_tokens) << what;
  ASSERT_EQ(a.choices.size(), b.choices.size()) << what;
  for (size_t i = 0; i < a.choices.size(); ++i) {
    const testing::Received &x = a.choices[i], &y = b.choices[i];
    EXPECT_EQ(x.tokens, y.tokens) << what;
    EXPECT_EQ(x.text, y.text) << what;
    EXPECT_EQ(x.reason, y.reason) << what;
    EXPECT_EQ(x.stop_reason, y.stop_reason) << what;
    ASSERT_EQ(x.logprobs.size(), y.logprobs.size()) << what;
    for (size_t t = 0; t < x.logprobs.size(); ++t) {
      ASSERT_EQ(x.logprobs[t].has_value(), y.logprobs[t].has_value()) << what;
      if (!x.logprobs[t]) continue;
      EXPECT_EQ(x.logprobs[t]->chosen.token, y.logprobs[t]->chosen.token) << what;
      EXPECT_EQ(x.logprobs[t]->chosen.logprob, y.logprobs[t]->chosen.logprob) << what;
      ASSERT_EQ(x.logprobs[t]->top.size(), y.logprobs[t]->top.size()) << what;
    }
  }
}

TEST(Speculation, ATextThatRepeatsItselfTakesFewerStepsAndIsTheSame) {
  uint64_t steps[2];
  for (const bool on : {false, true}) {
    EngineHarness h(WithSequences(1, on), Circles(false));
    h.MustSubmit(TestRequest(TestPrompt(1, 40), 400));
    ASSERT_TRUE(h.RunToEnd());
    EXPECT_EQ(h.client(0).choices[0].tokens, h.Solo(h.client(0).request));
    EXPECT_EQ(h.client(0).usage.completion_tokens, 400);
    EXPECT_THAT(h.runner().violations(), ::testing::IsEmpty());
    const EngineStats stats = h.engine().stats();
    steps[on] = stats.steps;
    EXPECT_EQ(stats.draft_tokens > 0, on);
    EXPECT_EQ(stats.output_tokens, 400u);
    if (!on) continue;
    EXPECT_GT(stats.accepted_tokens, 100u);
    EXPECT_LT(stats.accepted_tokens, stats.draft_tokens);
    EXPECT_EQ(stats.steps, 400 - stats.accepted_tokens);
  }
  EXPECT_LT(3 * steps[true], 2 * steps[false]);
}

// Each feature of a request that depends on the tokens before, alone and together with the others.
TEST(Speculation, EveryParameterGivesTheSameWithAndWithout) {
  struct Case {
    const char* name;
    void (*set)(Request&);
  };
  const std::vector<Case> cases = {
      {"greedy", [](Request&) {}},
      {"temperature", [](Request& r) { r.sampling.temperature = 0.7; }},
      {"top_k", [](Request& r) { r.sampling.temperature = 0.4, r.sampling.top_k = 5; }},
      {"top_p", [](Request& r) { r.sampling.temperature = 0.4, r.sampling.top_p = 0.6; }},
      {"min_p", [](Request& r) { r.sampling.temperature = 0.5, r.sampling.min_p = 0.1; }},
      {"repetition", [](Request& r) { r.sampling.repetition_penalty = 1.1; }},
      {"presence", [](Request& r) { r.sampling.presence_penalty = 0.4; }},
      {"frequency", [](Request& r) { r.sampling.frequency_penalty = 0.02; }},
      {"logprobs", [](Request& r) { r.sampling.logprobs = 3; }},
      {"prompt logprobs", [](Request& r) { r.sampling.prompt_logprobs = 2; }},
      {"bias",
       [](Request& r) {
         r.sampling.logit_bias = {{5, 2.5F}, {11, -3.F}};
       }},
      {"bans",
       [](Request& r) {
         r.sampling.banned_token_ids = {1, 2, 3, 4, 5};
       }},
      {"allowed", [](Request& r) { r.sampling.allowed_token_ids = {9, 10, 11, 12, 13, 14, 15}; }},
      {"min_tokens",
       [](Request& r) {
         r.sampling.ignore_eos = false;
         r.end_tokens = {3, 17, 29, 31, 40};
         r.sampling.min_tokens = 60;
       }},
      {"end of text",
       [](Request& r) {
         r.sampling.ignore_eos = false;
         r.end_tokens = {TokenId(r.seed % 60), 23};
       }},
      {"stop ids", [](Request& r) { r.sampling.stop_token_ids = {TokenId(7 + r.seed % 40)}; }},
      {"stop string",
       [](Request& r) {
         r.sampling.stop = {"ba ", "ka", "a la m"};
       }},
      {"stop included",
       [](Request& r) {
         r.sampling.stop = {"ca ", "t"};
         r.sampling.include_stop_in_output = true;
       }},
      {"choices", [](Request& r) { r.n = 3, r.sampling.temperature = 0.5; }},
      {"three tokens", [](Request& r) { r.sampling.max_tokens = 3; }},
  };
  uint64_t accepted = 0;
  for (size_t first = 0; first < cases.size(); ++first) {
    for (size_t second = first; second < cases.size(); ++second) {
      std::unique_ptr<EngineHarness> runs[2];
      for (const bool on : {false, true}) {
        runs[on] = std::make_unique<EngineHarness>(WithSequences(2, on), Circles());
        for (uint64_t seed = 0; seed < 2; ++seed) {
          Request r =
              TestRequest(TestPrompt(static_cast<int>(seed), 30), 90, 0, seed * 13 + second);
          r.sampling.ignore_eos = true;
          cases[first].set(r);
          cases[second].set(r);
          runs[on]->MustSubmit(std::move(r));
        }
        ASSERT_TRUE(runs[on]->RunToEnd());
        EXPECT_THAT(runs[on]->runner().violations(), ::testing::IsEmpty());
        EXPECT_EQ(runs[on]->engine().decoder_for_test().pool().active(), 0);
      }
      const std::string what = std::string(cases[first].name) + " and " + cases[second].name;
      for (size_t i = 0; i < 2; ++i) ExpectEqual(runs[0]->client(i), runs[1]->client(i), what);
      accepted += runs[1]->engine().stats().accepted_tokens;
    }
  }
  EXPECT_GT(accepted, 1000u);
}

// A draw that no token is allowed at fails at its place, whether it was reached by draft tokens or
// not.
TEST(Speculation, ADrawThatFailsFailsAtItsPlace) {
  for (const bool on : {false, true}) {
    EngineHarness h(WithSequences(1, on), Circles());
    Request r = TestRequest(TestPrompt(1, 40), 200);
    r.sampling.allowed_token_ids = {3};
    r.sampling.min_tokens = 0;
    r.end_tokens = {3};
    r.sampling.ignore_eos = true;
    h.MustSubmit(r);
    // Every draw gives token 3; the step of a row fails after 50 of them.
    h.runner().fault = [&](const StepPlan&, const SequenceSlice* slice) {
      return slice != nullptr && slice->start >= 90 ? Internal("not finite") : OkStatus();
    };
    ASSERT_TRUE(h.RunToEnd());
    EXPECT_EQ(h.client(0).status().reason(), "internal_error");
    EXPECT_GE(h.client(0).choices[0].tokens.size(), 51u);
    EXPECT_LE(h.client(0).choices[0].tokens.size(), 51u + kMaxDrafts);
  }
}

TEST(Speculation, NeverMoreThan16RowsAndNoneBesidePrompts) {
  for (const int max_num_seqs : {1, 2, 3, 5, 8, 12}) {
    EngineHarness h(WithSequences(max_num_seqs, true), Circles(false));
    int most = 0;
    h.runner().fault = [&](const StepPlan& plan, const SequenceSlice* slice) {
      if (slice != nullptr) return OkStatus();
      int drafts = 0;
      bool prompt = false;
      for (const SequenceSlice& s : plan.slices) {
        drafts += s.drafts;
        prompt |= static_cast<int>(s.tokens.size()) > 1 + s.drafts || s.sampler == nullptr ||
                  s.sampler->output.empty();
      }
      EXPECT_TRUE(drafts == 0 || !prompt);
      EXPECT_LE(drafts == 0 ? 0 : plan.tokens, kMaxDraftRows);
      most = std::max(most, drafts);
      return OkStatus();
    };
    for (int i = 0; i < 2 * max_num_seqs; ++i) h.MustSubmit(TestRequest(TestPrompt(i, 50), 150));
    ASSERT_TRUE(h.RunToEnd());
    for (size_t i = 0; i < h.size(); ++i)
      EXPECT_EQ(h.client(i).choices[0].tokens, h.Solo(h.client(i).request));
    EXPECT_EQ(most > 0, max_num_seqs <= kMaxDraftSequences) << max_num_seqs;
    EXPECT_THAT(h.runner().violations(), ::testing::IsEmpty());
  }
}

// Draft tokens allocate no block, so they neither preempt nor keep a request out.
TEST(Speculation, WithTooFewBlocksItPreemptsNoMoreThanWithout) {
  uint64_t preemptions[2];
  for (const bool on : {false, true}) {
    FakeModelOptions model = Circles(false);
    model.limits.kv_blocks = 14;
    EngineHarness h(WithSequences(4, on), model);
    for (int i = 0; i < 6; ++i) h.MustSubmit(TestRequest(TestPrompt(i, 30), 160));
    EngineSnapshot snapshot;
    while (h.RunOnce()) {
      TakeSnapshot(h.engine().decoder_for_test(), &snapshot);
      ASSERT_EQ(FindViolation(snapshot), "");
    }
    for (size_t i = 0; i < h.size(); ++i) {
      ASSERT_TRUE(h.client(i).status().ok()) << h.client(i).status();
      EXPECT_EQ(h.client(i).choices[0].tokens, h.Solo(h.client(i).request));
    }
    EXPECT_THAT(h.runner().violations(), ::testing::IsEmpty());
    preemptions[on] = h.engine().stats().preemptions;
    EXPECT_EQ(h.engine().stats().draft_tokens > 0, on);
  }
  EXPECT_GT(preemptions[0], 0u);
  EXPECT_LE(preemptions[1], preemptions[0] + 1);
}

// KV behind a rejected draft token must not be reused: a second request whose prompt is the whole
// text of the first one computes the same tokens.
TEST(Speculation, ThePrefixIndexHoldsOnlyWhatWasDrawn) {
  EngineHarness h(WithSequences(2, true), Circles(false));
  h.MustSubmit(TestRequest(TestPrompt(1, 40), 300));
  ASSERT_TRUE(h.RunToEnd());
  std::vector<TokenId> whole = h.client(0).request.prompt;
  whole.insert(whole.end(), h.client(0).choices[0].tokens.begin(),
               h.client(0).choices[0].tokens.end());
  for (size_t cut = 41; cut <= whole.size(); cut += 13)
    h.MustSubmit(
        TestRequest({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(cut)}, 40));
  ASSERT_TRUE(h.RunToEnd());
  for (size_t i = 0; i < h.size(); ++i)
    EXPECT_EQ(h.client(i).choices[0].tokens, h.Solo(h.client(i).request)) << i;
  EXPECT_THAT(h.runner().violations(), ::testing::IsEmpty());
  EXPECT_GT(h.engine().stats().prefix_hit_tokens, 0u);
}

// Tokens of a step after a stop string, or after the request was cancelled, are not delivered.
TEST(Speculation, ACancelOrDeadlineInTheMidstLeavesABeginningOfTheAnswer) {
  for (int at_ms = 20; at_ms < 400; at_ms += 17) {
    EngineHarness h(WithSequences(2, true), Circles(false));
    Request r = TestRequest(TestPrompt(1, 40), 500);
    r.deadline = h.clock().Now() + milliseconds(at_ms);
    h.MustSubmit(r);
    h.MustSubmit(TestRequest(TestPrompt(2, 40), 500));
    h.At(milliseconds(at_ms / 2), [&] { h.client(1).generation.Cancel(); });
    ASSERT_TRUE(h.RunToEnd());
    for (size_t i = 0; i < 2; ++i) {
      const std::vector<TokenId> solo = h.Solo(h.client(i).request);
      const std::vector<TokenId>& got = h.client(i).choices[0].tokens;
      ASSERT_LE(got.size(), solo.size());
      EXPECT_TRUE(std::equal(got.begin(), got.end(), solo.begin()));
      EXPECT_EQ(h.client(i).usage.completion_tokens, static_cast<int>(got.size()));
    }
    EXPECT_EQ(h.engine().decoder_for_test().pool().active(), 0);
  }
}

}  // namespace
}  // namespace tutti::engine
