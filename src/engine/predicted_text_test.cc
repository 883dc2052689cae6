#include <gtest/gtest.h>

#include <vector>

#include "engine/draft_sources.h"
#include "engine/testing/engine_harness.h"

namespace tutti::engine {
namespace {

using testing::EngineHarness;
using testing::FakeModelOptions;
using testing::TestPrompt;
using testing::TestRequest;

std::vector<TokenId> Next(const PredictedText& text, size_t most = 3) {
  const auto next = text.next();
  return {next.begin(), next.begin() + static_cast<std::ptrdiff_t>(std::min(most, next.size()))};
}

TEST(PredictedText, IsFollowedFromItsBeginningToItsEnd) {
  const std::vector<TokenId> expected = {5, 6, 7, 8};
  PredictedText text;
  AcceptanceStats all;
  text.Begin(expected, 2);
  std::vector<TokenId> tokens = {1, 2};
  EXPECT_EQ(Next(text), (std::vector<TokenId>{5, 6, 7}));
  for (const TokenId token : expected) {
    tokens.push_back(token);
    text.Advance(tokens, all);
  }
  EXPECT_TRUE(text.next().empty());
  EXPECT_EQ(text.accepted(), 4);
  EXPECT_EQ(text.rejected(), 0);
}

TEST(PredictedText, IsFoundAgainBehindADifferenceAnInsertionAndALeap) {
  std::vector<TokenId> expected;
  for (TokenId i = 0; i < 300; ++i) expected.push_back(10 + i);
  PredictedText text;
  AcceptanceStats all;
  text.Begin(expected, 0);
  std::vector<TokenId> tokens;
  const auto say = [&](std::initializer_list<TokenId> more) {
    for (const TokenId token : more) {
      tokens.push_back(token);
      text.Advance(tokens, all);
    }
  };
  say({10, 11, 999});  // instead of 12
  EXPECT_TRUE(text.next().empty());
  say({13, 14});
  EXPECT_EQ(Next(text, 2), (std::vector<TokenId>{15, 16}));
  say({777, 778, 15, 16});  // put in between
  EXPECT_EQ(Next(text, 1), std::vector<TokenId>{17});
  say({900, 250, 251});  // too far on for two tokens
  EXPECT_TRUE(text.next().empty());
  say({252});
  EXPECT_EQ(Next(text, 1), std::vector<TokenId>{253});
  const int accepted = text.accepted();
  EXPECT_EQ(accepted, 9);  // 10 11, 13 14, 15 16, 250 251 252
  EXPECT_EQ(accepted + text.rejected(), 300);
  say({10, 11, 12, 13});  // generated before: no token counts twice
  EXPECT_EQ(text.accepted(), accepted);
}

TEST(PredictedText, NoneProposesNothingAndCountsNothing) {
  PredictedText text;
  AcceptanceStats all;
  text.Advance(std::vector<TokenId>{1, 2, 3}, all);
  EXPECT_TRUE(text.next().empty());
  EXPECT_EQ(text.accepted() + text.rejected(), 0);
}

FakeModelOptions NeverRepeats() {
  FakeModelOptions model;
  model.limits.kv_blocks = 512;
  model.sample_rows = false;
  return model;
}

Request Predicted(EngineHarness& h, int from, int wrong_every) {
  Request request = TestRequest(TestPrompt(from, 40), 300);
  request.prediction = h.Solo(request);
  for (size_t i = 0; wrong_every > 0 && i < request.prediction.size();
       i += static_cast<size_t>(wrong_every))
    request.prediction[i] = (request.prediction[i] + 1) % 60;
  return request;
}

// A right prediction saves most of the steps and a wrong one changes nothing. The usage counts show
// which it was, and are the same alone and among other requests.
TEST(PredictedText, MakesAnAnswerComeSoonerAndNothingElse) {
  for (const int wrong_every : {0, 17, 1}) {
    api::Usage usage[2];
    for (const int max_num_seqs : {1, 4}) {
      EngineOptions options;
      options.scheduler.max_num_seqs = max_num_seqs;
      EngineHarness h(options, NeverRepeats());
      const size_t first = h.MustSubmit(Predicted(h, 1, wrong_every));
      for (int i = 1; i < max_num_seqs; ++i)
        h.MustSubmit(TestRequest(TestPrompt(i + 1, 70), 200, 0.7));
      ASSERT_TRUE(h.RunToEnd());
      for (size_t i = 0; i < h.size(); ++i)
        EXPECT_EQ(h.client(i).choices[0].tokens, h.Solo(h.client(i).request));
      EXPECT_TRUE(h.runner().violations().empty());
      usage[max_num_seqs > 1] = h.client(first).usage;
      if (max_num_seqs == 1 && wrong_every == 0) {
        EXPECT_LT(h.engine().stats().steps, 130u);
      }
    }
    EXPECT_EQ(usage[0].accepted_prediction_tokens, usage[1].accepted_prediction_tokens);
    EXPECT_EQ(usage[0].rejected_prediction_tokens, usage[1].rejected_prediction_tokens);
    EXPECT_EQ(usage[0].accepted_prediction_tokens + usage[0].rejected_prediction_tokens, 300);
    if (wrong_every == 0) {
      EXPECT_EQ(usage[0].accepted_prediction_tokens, 300);
    } else if (wrong_every == 17) {
      EXPECT_GT(usage[0].accepted_prediction_tokens, 200);
    } else {
      EXPECT_LT(usage[0].accepted_prediction_tokens, 60);
    }
  }
}

TEST(PredictedText, OffOrAStopStringInItsMidst) {
  EngineOptions options;
  options.scheduler.speculate = false;
  EngineHarness off(options, NeverRepeats());
  off.MustSubmit(Predicted(off, 1, 0));
  ASSERT_TRUE(off.RunToEnd());
  EXPECT_EQ(off.client(0).usage.accepted_prediction_tokens, 0);
  EXPECT_EQ(off.client(0).usage.rejected_prediction_tokens, 0);

  EngineHarness h({}, NeverRepeats());
  Request request = Predicted(h, 1, 0);
  request.n = 2;
  std::string fifth;
  h.text().AppendBytes(request.prediction[50], false, true, fifth);
  request.sampling.stop = {fifth};
  h.MustSubmit(request);
  ASSERT_TRUE(h.RunToEnd());
  const api::Usage& usage = h.client(0).usage;
  EXPECT_EQ(usage.accepted_prediction_tokens, usage.completion_tokens);
  EXPECT_EQ(usage.accepted_prediction_tokens + usage.rejected_prediction_tokens, 2 * 300);
}

}  // namespace
}  // namespace tutti::engine
