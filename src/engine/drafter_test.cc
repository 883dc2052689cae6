// Row U75, a second model: its draft tokens change the time an answer takes, and nothing of the
// answer.
#include "engine/drafter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/decoder_instance.h"
#include "engine/invariants.h"
#include "engine/testing/engine_harness.h"

namespace tutti::engine {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::DraftSetup;
using testing::EngineHarness;
using testing::FakeModelOptions;
using testing::TestPrompt;
using testing::TestRequest;
using testing::TimingModel;

FakeModelOptions DraftOptions(uint64_t salt = 0, int salted_parts = 8, bool sample_rows = false) {
  FakeModelOptions model;
  model.limits.kv_blocks = 512;
  model.sample_rows = sample_rows;
  model.salt = salt;
  model.salted_parts = salted_parts;
  return model;
}

EngineOptions WithMaxNumSeqs(int max_num_seqs) {
  EngineOptions options;
  options.scheduler.max_num_seqs = max_num_seqs;
  options.queue.age = Duration::max();
  return options;
}

std::unique_ptr<EngineHarness> WithDraftModel(const EngineOptions& options,
                                              const FakeModelOptions& model,
                                              const std::optional<DraftSetup>& draft) {
  return std::make_unique<EngineHarness>(options, model, TimingModel(), false, nullptr, draft);
}

// The answer, and nothing left behind in either memory.
void ExpectSoloTokens(EngineHarness& h) {
  for (size_t i = 0; i < h.size(); ++i) {
    ASSERT_TRUE(h.client(i).status().ok()) << h.client(i).status();
    for (int c = 0; c < h.client(i).request.n; ++c)
      EXPECT_EQ(h.client(i).choices[static_cast<size_t>(c)].tokens, h.Solo(h.client(i).request, c));
  }
  EXPECT_THAT(h.runner().violations(), ::testing::IsEmpty());
  EXPECT_THAT(h.draft().violations(), ::testing::IsEmpty());
  const DecoderInstance& slot = h.engine().decoder_for_test();
  EXPECT_EQ(slot.pool().active(), 0);
  EXPECT_EQ(slot.drafter()->free_blocks(), h.draft().limits().kv_blocks);
}

TEST(DraftModel, OneThatIsAlwaysRightSavesMostOfTheSteps) {
  for (const int prompt : {3, 40, 700}) {
    auto h = WithDraftModel(WithMaxNumSeqs(1), DraftOptions(), DraftSetup{DraftOptions()});
    h->MustSubmit(TestRequest(TestPrompt(1, prompt), 600));
    ASSERT_TRUE(h->RunToEnd());
    ExpectSoloTokens(*h);
    const EngineStats stats = h->engine().stats();
    EXPECT_LT(stats.draft_tokens - stats.accepted_tokens, 20u) << prompt;  // some were copied
    EXPECT_LT(stats.steps, 250u) << prompt;
    EXPECT_EQ(stats.output_tokens, 600u);
  }
}

TEST(DraftModel, OneThatIsSometimesRightGivesTheSame) {
  uint64_t accepted = 0, proposed = 0;
  for (const int parts : {1, 3, 6}) {
    for (const double temperature : {0.0, 0.8}) {
      auto h = WithDraftModel(WithMaxNumSeqs(3), DraftOptions(0, 8, true),
                              DraftSetup{DraftOptions(7, parts, true)});
      for (int i = 0; i < 7; ++i) {
        Request r =
            TestRequest(TestPrompt(i, 5 + 60 * i), 150, temperature, static_cast<uint64_t>(i));
        r.n = i == 3 ? 3 : 1;
        h->MustSubmit(std::move(r));
      }
      ASSERT_TRUE(h->RunToEnd());
      ExpectSoloTokens(*h);
      accepted += h->engine().stats().accepted_tokens;
      proposed += h->engine().stats().draft_tokens;
    }
  }
  EXPECT_GT(accepted, 300u);
  EXPECT_LT(accepted, proposed);
}

// Time taken for the same requests, in virtual milliseconds.
double TimeOf(const std::optional<DraftSetup>& draft, int requests, uint64_t* proposed = nullptr) {
  auto h = WithDraftModel(WithMaxNumSeqs(1), DraftOptions(), draft);
  for (int i = 0; i < requests; ++i) h->MustSubmit(TestRequest(TestPrompt(i, 60), 400));
  EXPECT_TRUE(h->RunToEnd());
  if (proposed != nullptr) *proposed = h->engine().stats().draft_tokens;
  return ToSeconds(h->now()) * 1e3;
}

// The draft model's size gives a first estimate before anything is measured. A draft model as large
// as the model costs the server's first request nothing; one of a tenth of its size is used from
// the start.
TEST(DraftModel, OneAsLargeAsTheModelIsNotReadAPromptToFindThatOut) {
  FakeModelOptions model = DraftOptions();
  model.limits.weight_bytes = 1000;
  const auto steps_of_draft = [&](size_t bytes, double* ms) {
    DraftSetup draft{DraftOptions()};
    draft.model.limits.weight_bytes = bytes;
    if (bytes == 1000) draft.timing = TimingModel();
    auto h = WithDraftModel(WithMaxNumSeqs(1), model, draft);
    h->MustSubmit(TestRequest(TestPrompt(1, 700), 200));
    EXPECT_TRUE(h->RunToEnd());
    ExpectSoloTokens(*h);
    *ms = ToSeconds(h->now()) * 1e3;
    return h->draft().steps();
  };
  auto alone = WithDraftModel(WithMaxNumSeqs(1), model, std::nullopt);
  alone->MustSubmit(TestRequest(TestPrompt(1, 700), 200));
  ASSERT_TRUE(alone->RunToEnd());
  const double without = ToSeconds(alone->now()) * 1e3;
  double same = 0, tenth = 0;
  EXPECT_EQ(steps_of_draft(1000, &same), 0u);
  EXPECT_LT(same, 1.001 * without);
  EXPECT_GT(steps_of_draft(100, &tenth), 50u);
  EXPECT_LT(tenth, 0.8 * without);
}

TEST(DraftModel, OneThatFailsIsAskedOnceForASequenceAndNoMore) {
  auto h = WithDraftModel(WithMaxNumSeqs(2), DraftOptions(), DraftSetup{DraftOptions()});
  int asked = 0;
  h->draft().fault = [&](const StepPlan&, const SequenceSlice* slice) {
    if (slice != nullptr) return OkStatus();
    ++asked;
    return Internal("no");
  };
  for (int i = 0; i < 6; ++i) h->MustSubmit(TestRequest(TestPrompt(i, 50), 300));
  ASSERT_TRUE(h->RunToEnd());
  ExpectSoloTokens(*h);
  EXPECT_GT(asked, 0);
  EXPECT_LE(asked, 6);
}

// With the model itself as draft model, every draft is right but takes as long as a step: drafting
// must switch itself off.
TEST(DraftModel, OneThatCostsAsMuchAsTheModelSwitchesItselfOff) {
  DraftSetup same{DraftOptions()};
  same.timing = TimingModel();
  uint64_t proposed = 0;
  const double without = TimeOf(std::nullopt, 30), with = TimeOf(same, 30, &proposed);
  EXPECT_GT(proposed, 0u);
  EXPECT_LT(proposed, 30 * 400 / 50u);
  EXPECT_LT(with, 1.03 * without);
}

TEST(DraftModel, OneThatIsWrongSwitchesItselfOffAndIsLookedAtAgain) {
  uint64_t proposed = 0;
  const double without = TimeOf(std::nullopt, 30),
               with = TimeOf(DraftSetup{DraftOptions(9)}, 30, &proposed);
  EXPECT_GT(proposed, 10u);
  EXPECT_LT(proposed, 30 * 400 / 10u);
  EXPECT_LT(with, 1.03 * without);
}

TEST(DraftModel, ACheapOneThatIsRightPays) {
  EXPECT_LT(2 * TimeOf(DraftSetup{DraftOptions()}, 30), TimeOf(std::nullopt, 30));
}

// The draft model has its own KV memory: a sequence that does not fit into it gets no draft tokens,
// and no sequence is preempted.
TEST(DraftModel, WithTooLittleMemoryOfItsOwnItProposesForFewer) {
  for (const int blocks : {1, 5, 12, 30}) {
    DraftSetup draft{DraftOptions()};
    draft.model.limits.kv_blocks = blocks;
    auto h = WithDraftModel(WithMaxNumSeqs(4), DraftOptions(), draft);
    for (int i = 0; i < 12; ++i) h->MustSubmit(TestRequest(TestPrompt(i, 50), 200));
    ASSERT_TRUE(h->RunToEnd());
    ExpectSoloTokens(*h);
    EXPECT_EQ(h->engine().stats().preemptions, 0u);
    if (blocks == 30) {
      EXPECT_GT(h->engine().stats().accepted_tokens, 12 * 200 / 2u);
    }
  }
}

TEST(DraftModel, AShortContextOfItsOwnEndsItsProposals) {
  DraftSetup draft{DraftOptions()};
  draft.model.limits.context = 150;
  auto h = WithDraftModel(WithMaxNumSeqs(1), DraftOptions(), draft);
  h->MustSubmit(TestRequest(TestPrompt(1, 50), 400));
  ASSERT_TRUE(h->RunToEnd());
  ExpectSoloTokens(*h);
  EXPECT_GT(h->engine().stats().draft_tokens, 20u);
  EXPECT_LE(h->engine().stats().draft_tokens, 100u);
}

TEST(DraftModel, ItsFaultsAreNobodysErrors) {
  Random random(4);
  for (const bool whole : {true, false}) {
    auto h = WithDraftModel(WithMaxNumSeqs(3), DraftOptions(), DraftSetup{DraftOptions()});
    h->draft().fault = [&](const StepPlan&, const SequenceSlice* slice) {
      return (slice == nullptr) == whole && random.Chance(0.2) ? Internal("no") : OkStatus();
    };
    for (int i = 0; i < 10; ++i) h->MustSubmit(TestRequest(TestPrompt(i, 50), 150));
    ASSERT_TRUE(h->RunToEnd());
    ExpectSoloTokens(*h);
    EXPECT_GT(h->engine().stats().accepted_tokens, 0u);
  }
}

// Steps that fail, are cancelled into, or run out of blocks: what the model knows stays right.
TEST(DraftModel, PreemptionCancelsAndFailedStepsLeaveTheSameAnswers) {
  for (int seed = 0; seed < 12; ++seed) {
    Random random(static_cast<uint64_t>(seed) + 1);
    FakeModelOptions model = DraftOptions(0, 8, true);
    model.limits.kv_blocks = 16;
    DraftSetup draft{DraftOptions(5, 1, true)};
    draft.model.limits.kv_blocks = 14;
    auto h = WithDraftModel(WithMaxNumSeqs(4), model, draft);
    h->runner().fault = [&](const StepPlan&, const SequenceSlice* slice) {
      return slice == nullptr && random.Chance(0.01) ? Unavailable("busy", "once") : OkStatus();
    };
    for (int i = 0; i < 8; ++i)
      h->MustSubmit(TestRequest(TestPrompt(i % 3, 30 + i), 150, i % 2 ? 0.7 : 0));
    h->At(milliseconds(100 + 37 * seed), [&] { h->client(1).generation.Cancel(); });
    EngineSnapshot snapshot;
    while (h->RunOnce()) {
      TakeSnapshot(h->engine().decoder_for_test(), &snapshot);
      ASSERT_EQ(FindViolation(snapshot), "");
    }
    for (size_t i = 0; i < h->size(); ++i) {
      const std::vector<TokenId> solo = h->Solo(h->client(i).request);
      const std::vector<TokenId>& got = h->client(i).choices[0].tokens;
      if (h->client(i).status().ok()) {
        EXPECT_EQ(got, solo) << i;
      }
      ASSERT_LE(got.size(), solo.size());
      EXPECT_TRUE(std::equal(got.begin(), got.end(), solo.begin())) << i;
    }
    EXPECT_THAT(h->runner().violations(), ::testing::IsEmpty());
    EXPECT_THAT(h->draft().violations(), ::testing::IsEmpty());
    EXPECT_EQ(h->engine().decoder_for_test().drafter()->free_blocks(), 14);
  }
}

// A prompt that the model has not read is read in pieces: no step waits long for it.
TEST(DraftModel, ALongPromptIsReadInPieces) {
  FakeModelOptions model = DraftOptions();
  model.limits.kv_blocks = 1024;
  DraftSetup draft{model};
  auto h = WithDraftModel(WithMaxNumSeqs(1), model, draft);
  int most = 0;
  h->draft().fault = [&](const StepPlan& plan, const SequenceSlice*) {
    most = std::max(most, plan.tokens);
    return OkStatus();
  };
  h->MustSubmit(TestRequest(TestPrompt(1, 2000), 300));
  ASSERT_TRUE(h->RunToEnd());
  ExpectSoloTokens(*h);
  EXPECT_LE(most, 128);
  EXPECT_GT(h->engine().stats().accepted_tokens, 50u);
}

TEST(DraftModel, RepeatedTextIsCopiedAndOtherTextIsDraftedByTheModel) {
  FakeModelOptions circles = DraftOptions(0, 8);
  circles.repeats_itself = true;
  uint64_t passes[2], steps[2];
  for (const bool right : {false, true}) {
    DraftSetup draft{circles};
    draft.model.salt = right ? 0 : 3;
    auto h = WithDraftModel(WithMaxNumSeqs(1), circles, draft);
    for (int i = 0; i < 6; ++i) h->MustSubmit(TestRequest(TestPrompt(i, 40), 400));
    ASSERT_TRUE(h->RunToEnd());
    ExpectSoloTokens(*h);
    passes[right] = h->draft().steps();
    steps[right] = h->engine().stats().steps;
  }
  EXPECT_LT(passes[false], passes[true]);
  EXPECT_LT(steps[true], steps[false]);
}

TEST(DraftModel, OffMeansNeverAsked) {
  EngineOptions options = WithMaxNumSeqs(2);
  options.scheduler.speculate = false;
  auto h = WithDraftModel(options, DraftOptions(), DraftSetup{DraftOptions()});
  h->MustSubmit(TestRequest(TestPrompt(1, 40), 100));
  ASSERT_TRUE(h->RunToEnd());
  EXPECT_EQ(h->draft().steps(), 0u);
}

TEST(DraftModel, SettlingKeepsWhatCameTrue) {
  const std::vector<TokenId> tokens = {1, 2, 3, 4, 5, 6};
  DraftState draft;
  draft.confirmed = 3;
  draft.known = 6;
  draft.proposed = {4, 5, 9};
  draft.Settle(tokens);
  EXPECT_EQ(draft.known, 5);
  EXPECT_EQ(draft.Backlog(tokens), 0);
  draft.confirmed = 3;
  draft.known = 5;
  draft.proposed = {9, 5};
  draft.Settle(tokens);
  EXPECT_EQ(draft.known, 3);
  EXPECT_EQ(draft.Backlog(tokens), 2);
  draft.confirmed = 6;  // the step was for nothing: the last token is computed again
  draft.known = 7;
  draft.Settle(tokens);
  EXPECT_EQ(draft.known, 5);
}

}  // namespace
}  // namespace tutti::engine
