// Row U86 through the engine: sampling parameters reach the draw, stop strings, log-probabilities,
// characters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "base/utf8.h"
#include "engine/request_state.h"
#include "engine/testing/engine_harness.h"

namespace tutti::engine {
namespace {

using testing::EngineHarness;
using testing::FakeTokenText;
using testing::HarnessClient;
using testing::Received;
using testing::TestPrompt;
using testing::TestRequest;

std::string TextOf(const std::vector<TokenId>& tokens, bool split = false) {
  const FakeTokenText text(split);
  std::string bytes, out;
  for (const TokenId t : tokens) text.AppendBytes(t, false, true, bytes);
  Utf8Repair repair;
  repair.Push(bytes, out);
  repair.Finish(out);
  return out;
}

// U86: the same seed gives the same text at 1 and 8 sequences.
TEST(Text, TheSameSeedGivesTheSameTextAtOneAndEightSequences) {
  std::vector<std::string> texts;
  for (const int max_num_seqs : {1, 8}) {
    EngineOptions options;
    options.scheduler.max_num_seqs = max_num_seqs;
    EngineHarness h(options);
    for (int i = 0; i < 16; ++i) {
      Request r =
          TestRequest(TestPrompt(i, 12), 40, 0.8 + 0.05 * i, 1000 + static_cast<uint64_t>(i));
      r.sampling.top_k = i % 3 == 0 ? 10 : 0;
      r.sampling.top_p = i % 3 == 1 ? 0.9 : 1.0;
      r.sampling.min_p = i % 3 == 2 ? 0.05 : 0.0;
      r.sampling.repetition_penalty = 1.0 + 0.02 * i;
      r.sampling.frequency_penalty = 0.1 * i;
      h.MustSubmit(std::move(r));
    }
    ASSERT_TRUE(h.RunToEnd());
    std::string all;
    for (size_t i = 0; i < h.size(); ++i) all += h.client(i).choices[0].text + "\n";
    texts.push_back(all);
  }
  EXPECT_EQ(texts[0], texts[1]);
}

// U86: temperature 0 and top_k of the request are honoured.
TEST(Text, TemperatureZeroAndTopKOneAgreeAndOthersDiffer) {
  EngineHarness h;
  h.MustSubmit(TestRequest(TestPrompt(1, 12), 40, 0.0, 1));
  Request top1 = TestRequest(TestPrompt(1, 12), 40, 1.5, 2);
  top1.sampling.top_k = 1;
  h.MustSubmit(std::move(top1));
  h.MustSubmit(TestRequest(TestPrompt(1, 12), 40, 1.5, 2));
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(h.client(0).choices[0].tokens, h.client(1).choices[0].tokens);
  EXPECT_NE(h.client(0).choices[0].tokens, h.client(2).choices[0].tokens);
}

// U86: a stop string split over tokens is caught and not emitted.
TEST(Text, AStopStringSplitOverTokensEndsTheChoice) {
  EngineHarness probe;
  probe.MustSubmit(TestRequest(TestPrompt(1, 12), 40));
  ASSERT_TRUE(probe.RunToEnd());
  const std::string whole = probe.client(0).choices[0].text;
  const std::string stop = whole.substr(31, 9);  // the middle of tokens 10 to 13
  const size_t at = whole.find(stop);
  for (const bool include : {false, true}) {
    EngineHarness h;
    Request r = TestRequest(TestPrompt(1, 12), 40);
    r.sampling.stop = {"never there", stop};
    r.sampling.include_stop_in_output = include;
    h.MustSubmit(std::move(r));
    ASSERT_TRUE(h.RunToEnd());
    const Received& choice = h.client(0).choices[0];
    EXPECT_EQ(choice.text, whole.substr(0, at + (include ? stop.size() : 0)));
    EXPECT_EQ(choice.reason, api::FinishReason::kStop);
    EXPECT_EQ(std::get<std::string>(choice.stop_reason), stop);
    EXPECT_EQ(choice.tokens.size(), (at + stop.size() + 2) / 3);  // tokens of the match count
    EXPECT_EQ(h.client(0).usage.completion_tokens, static_cast<int>(choice.tokens.size()));
  }
}

TEST(Text, WhatWasHeldBackComesWithTheEndOfTheChoice) {
  EngineHarness probe;
  probe.MustSubmit(TestRequest(TestPrompt(1, 12), 10));
  ASSERT_TRUE(probe.RunToEnd());
  const std::string whole = probe.client(0).choices[0].text;
  EngineHarness h;
  Request r = TestRequest(TestPrompt(1, 12), 10);
  r.sampling.stop = {whole.substr(whole.size() - 5) + "zzz"};
  h.MustSubmit(std::move(r));
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(h.client(0).choices[0].text, whole);
  EXPECT_EQ(h.client(0).choices[0].reason, api::FinishReason::kLength);
}

TEST(Text, EndTokensStopTokensAndMinimumLength) {
  EngineHarness probe;
  probe.MustSubmit(TestRequest(TestPrompt(4, 12), 30));
  ASSERT_TRUE(probe.RunToEnd());
  const std::vector<TokenId> free_run = probe.client(0).choices[0].tokens;
  const TokenId at5 = free_run[5];
  const auto first =
      static_cast<size_t>(std::find(free_run.begin(), free_run.end(), at5) - free_run.begin());
  const auto run = [&](auto change) {
    auto h = std::make_unique<EngineHarness>();
    Request r = TestRequest(TestPrompt(4, 12), 30);
    change(r);
    h->MustSubmit(std::move(r));
    EXPECT_TRUE(h->RunToEnd());
    return h->client(0).choices[0];
  };
  // End of text: counted, not shown, no stop reason.
  const Received eos = run([&](Request& r) { r.end_tokens = {at5}; });
  EXPECT_EQ(eos.tokens.size(), first + 1);
  EXPECT_EQ(eos.text,
            TextOf({free_run.begin(), free_run.begin() + static_cast<std::ptrdiff_t>(first)}));
  EXPECT_EQ(eos.reason, api::FinishReason::kStop);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(eos.stop_reason));
  // A named stop token says which.
  const Received stop = run([&](Request& r) { r.sampling.stop_token_ids = {at5}; });
  EXPECT_EQ(std::get<TokenId>(stop.stop_reason), at5);
  const Received shown = run([&](Request& r) {
    r.sampling.stop_token_ids = {at5}, r.sampling.include_stop_in_output = true;
  });
  EXPECT_EQ(shown.text,
            TextOf({free_run.begin(), free_run.begin() + static_cast<std::ptrdiff_t>(first) + 1}));
  // With ignore_eos the text continues; min_tokens bans the end until then.
  EXPECT_EQ(run([&](Request& r) { r.end_tokens = {at5}, r.sampling.ignore_eos = true; }).tokens,
            free_run);
  const Received late = run([&](Request& r) { r.end_tokens = {at5}, r.sampling.min_tokens = 20; });
  EXPECT_GE(late.tokens.size(), 20u);
  EXPECT_EQ(std::find(late.tokens.begin(), late.tokens.begin() + 20, at5),
            late.tokens.begin() + 20);
}

TEST(Text, ChosenAndTopLogprobsComeWithEachToken) {
  EngineHarness h;
  Request r = TestRequest(TestPrompt(1, 12), 10, 0.7);
  r.sampling.logprobs = 5;
  h.MustSubmit(std::move(r));
  ASSERT_TRUE(h.RunToEnd());
  const Received& choice = h.client(0).choices[0];
  EXPECT_EQ(choice.tokens, h.Solo(h.client(0).request));  // asking for them changes nothing
  for (size_t i = 0; i < choice.tokens.size(); ++i) {
    ASSERT_TRUE(choice.logprobs[i].has_value());
    const api::TokenLogprobs& l = *choice.logprobs[i];
    EXPECT_EQ(l.chosen.token, choice.tokens[i]);
    EXPECT_LE(l.chosen.logprob, 0);
    ASSERT_EQ(l.top.size(), 5u);
    for (size_t k = 1; k < 5; ++k) EXPECT_GE(l.top[k - 1].logprob, l.top[k].logprob);
    EXPECT_EQ(l.chosen.bytes, TextOf({l.chosen.token}));
  }
}

// Scoring: every prompt token once, in order, the first without a value, at any chunk and under
// preemption.
TEST(Text, PromptLogprobsAreTheSameAtAnyChunkAndWithoutADraw) {
  std::vector<float> expected;
  for (const int chunk : {1, 7, 64, 512}) {
    for (const bool score_only : {true, false}) {
      EngineOptions options;
      options.scheduler.prefill_chunk = options.scheduler.prefill_chunk_alone = chunk;
      EngineHarness h(options);
      Request r = TestRequest(TestPrompt(1, 100), score_only ? 0 : 10);
      r.score_only = score_only;
      r.sampling.prompt_logprobs = 2;
      h.MustSubmit(std::move(r));
      h.MustSubmit(TestRequest(TestPrompt(1, 100),
                               5));  // fills the prefix cache; scoring does not draw on it
      ASSERT_TRUE(h.RunToEnd());
      const HarnessClient& c = h.client(0);
      EXPECT_TRUE(c.status().ok()) << c.status();
      ASSERT_EQ(c.prompt_events.size(), 100u);
      std::vector<float> values;
      std::string text;
      for (size_t i = 0; i < 100; ++i) {
        EXPECT_EQ(c.prompt_events[i].token, c.request.prompt[i]);
        text += c.prompt_events[i].text;
        ASSERT_EQ(c.prompt_events[i].logprobs.has_value(), i > 0);
        if (i == 0) continue;
        EXPECT_EQ(c.prompt_events[i].logprobs->chosen.token, c.request.prompt[i]);
        EXPECT_EQ(c.prompt_events[i].logprobs->top.size(), 2u);
        values.push_back(c.prompt_events[i].logprobs->chosen.logprob);
      }
      EXPECT_EQ(text, TextOf(c.request.prompt));
      if (expected.empty()) expected = values;
      EXPECT_EQ(values, expected);
      EXPECT_EQ(c.choices[0].reason, api::FinishReason::kLength);
      EXPECT_EQ(c.choices[0].tokens.size(), score_only ? 0u : 10u);
      EXPECT_THAT(h.runner().violations(), ::testing::IsEmpty());
    }
  }
}

// R24: labels are scored behind a prompt that comes from the prefix cache, at any chunk.
TEST(Text, AContinuationIsScoredBehindACachedPrompt) {
  const std::vector<TokenId> prompt = TestPrompt(1, 100), label = TestPrompt(9, 5);
  const auto scored = [&](EngineHarness& h, const std::vector<TokenId>& tail, int from,
                          std::vector<TokenId> alternatives = {}) {
    std::vector<TokenId> tokens = prompt;
    tokens.insert(tokens.end(), tail.begin(), tail.end());
    Request r = TestRequest(std::move(tokens), 0);
    r.score_only = true;
    r.sampling.prompt_logprobs = 0;
    r.score_from = from;
    r.alternatives = std::move(alternatives);
    h.MustSubmit(std::move(r));
    EXPECT_TRUE(h.RunToEnd());
    const HarnessClient& c = h.client(h.size() - 1);
    EXPECT_TRUE(c.status().ok()) << c.status();
    return c.prompt_events;
  };
  EngineHarness whole;
  const auto expected = scored(whole, label, 0);
  ASSERT_EQ(expected.size(), 105u);
  const float other = scored(whole, {7}, 0).back().logprobs->chosen.logprob;
  for (const int chunk : {1, 7, 64, 512}) {
    EngineOptions options;
    options.scheduler.prefill_chunk = options.scheduler.prefill_chunk_alone = chunk;
    EngineHarness h(options);
    for (const bool cached : {false, true}) {
      const uint64_t before = h.runner().tokens_computed();
      const auto events = scored(h, label, 100, {7, label.front()});
      EXPECT_EQ(h.runner().tokens_computed() - before < 30, cached);
      EXPECT_EQ(h.client(h.size() - 1).usage.cached_tokens >= 80, cached);
      ASSERT_EQ(events.size(), 5u);
      for (size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(events[i].token, label[i]);
        ASSERT_TRUE(events[i].logprobs.has_value());
        EXPECT_EQ(events[i].logprobs->chosen.logprob, expected[100 + i].logprobs->chosen.logprob);
        EXPECT_EQ(events[i].logprobs->top.size(), i == 0 ? 2u : 0u);
      }
      EXPECT_EQ(events[0].logprobs->top[0].logprob, other);
      EXPECT_EQ(events[0].logprobs->top[1].logprob, events[0].logprobs->chosen.logprob);
    }
    EXPECT_THAT(h.runner().violations(), ::testing::IsEmpty());
  }
}

TEST(Text, ScoringAPromptOfOneTokenOrWithoutLogprobsEndsAtOnce) {
  for (const int logprobs : {-1, 0}) {
    for (const int length : {1, 20}) {
      for (const int n : {1, 3}) {
        EngineHarness h;
        Request r = TestRequest(TestPrompt(1, length), 0);
        r.score_only = true;
        r.n = n;
        r.sampling.prompt_logprobs = logprobs;
        h.MustSubmit(std::move(r));
        ASSERT_TRUE(h.RunToEnd());
        EXPECT_TRUE(h.client(0).status().ok());
        EXPECT_EQ(h.client(0).prompt_events.size(),
                  logprobs < 0 ? 0u : static_cast<size_t>(length));
        for (const auto& choice : h.client(0).choices)
          EXPECT_EQ(choice.reason, api::FinishReason::kLength);
      }
    }
  }
}

// U62: no text piece is invalid UTF-8, wherever tokens cut characters.
TEST(Text, PiecesAreAlwaysWholeCharacters) {
  Random random(5);
  const FakeTokenText text(/*split_characters=*/true);
  for (int round = 0; round < 2000; ++round) {
    const sampling::StopSet stops(random.Chance(0.5)
                                      ? std::vector<std::string>{"\xE2\x82\xAC", "ab c"}
                                      : std::vector<std::string>{});
    TextOutput output(&text, &stops, random.Chance(0.5), true, static_cast<int>(random.Below(4)));
    std::string all;
    for (int i = 0; i < 30; ++i) {
      std::string piece;
      const bool stopped = output.Push(static_cast<TokenId>(random.Below(40)), piece).has_value();
      for (size_t p = 0; p < piece.size();) {
        const CodePoint c = DecodeAt(piece, p);
        ASSERT_TRUE(c.valid) << "round " << round;
        p += c.length;
      }
      all += piece;
      if (stopped) break;
    }
  }
}

TEST(Text, AnUnmaskableRequestFailsWithItsReason) {
  EngineHarness h;
  Request r = TestRequest(TestPrompt(1, 5), 5);
  r.sampling.allowed_token_ids = {3};
  r.sampling.banned_token_ids = {3};
  h.MustSubmit(std::move(r));
  h.MustSubmit(TestRequest(TestPrompt(2, 5), 5));
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(h.client(0).status().reason(), "invalid_logit_mask");
  EXPECT_TRUE(h.client(1).status().ok());
}

}  // namespace
}  // namespace tutti::engine
