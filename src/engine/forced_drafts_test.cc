// Rows R02 and N04: tokens that a grammar forces are proposed, and change the time of an answer,
// not the answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/testing/engine_harness.h"
#include "grammar/structure.h"

namespace tutti::engine {
namespace {

using testing::EngineHarness;
using testing::FakeModelOptions;
using testing::TestPrompt;
using testing::TestRequest;

constexpr TokenId kEnd = 63;
// As many as the longest request needs by itself.
constexpr int kFewBlocks = 16;

// A vocabulary of 64 tokens: the characters of the record below, and, with `long_tokens`, some of
// its parts.
std::shared_ptr<const grammar::TokenTrie> MakeTrie(bool long_tokens) {
  std::vector<std::string> texts;
  for (const char c : std::string("{}\":, abcdefghijklmnopqrstuvwxyz0123456789_-\n"))
    texts.emplace_back(1, c);
  if (long_tokens) {
    for (const char* text : {"\":", "\",\"", "{\"", "name", "na", "status", "sta", "tus\"", "_id"})
      texts.emplace_back(text);
  }
  texts.resize(64);
  texts[kEnd] = "end";
  return grammar::TokenTrie::Create(std::move(texts), {kEnd});
}

std::shared_ptr<grammar::TokenMasker> RecordMasker(bool long_tokens) {
  const auto automaton = grammar::Compile(grammar::Structure::Schema(
      R"({"type":"object","additionalProperties":false,"required":["customer_name",
          "status","order_id"],"properties":{"customer_name":{"enum":["ada","bob","cleo"]},
          "status":{"enum":["open","closed"]},"order_id":{"type":"integer"}}})",
      "schema"));
  EXPECT_TRUE(automaton.ok()) << automaton.status();
  return std::make_shared<grammar::TokenMasker>(*automaton, MakeTrie(long_tokens));
}

struct Answers {
  std::vector<std::vector<TokenId>> tokens;
  EngineStats stats;
};

// Requests of every kind under one grammar, `sequences` at once.
Answers Serve(bool forced, bool speculate, bool long_tokens, int sequences, int kv_blocks) {
  EngineOptions options;
  options.scheduler.max_num_seqs = sequences;
  options.scheduler.speculate = speculate;
  options.scheduler.propose_forced = forced;
  options.queue.age = Duration::max();
  FakeModelOptions model;
  model.limits.kv_blocks = kv_blocks;
  EngineHarness h(options, model);
  const auto masker = RecordMasker(long_tokens);
  for (int i = 0; i < 12; ++i) {
    Request request = TestRequest(TestPrompt(i, 5 + 7 * i), i % 4 == 3 ? 40 : 400,
                                  i % 2 == 0 ? 0 : 0.8, static_cast<uint64_t>(i));
    request.sampling.ignore_eos = false;
    request.end_tokens = {kEnd};
    request.constraint = masker;
    if (i % 3 == 1) request.sampling.logprobs = 2;
    if (i % 5 == 2) request.sampling.repetition_penalty = 1.2;
    if (i % 6 == 4) request.n = 2;
    if (i == 11) request.constraint = nullptr;  // one that writes what it likes
    h.MustSubmit(std::move(request));
  }
  EXPECT_TRUE(h.RunToEnd());
  EXPECT_THAT(h.runner().violations(), ::testing::IsEmpty());
  Answers answers;
  answers.stats = h.engine().stats();
  for (size_t i = 0; i < h.size(); ++i) {
    EXPECT_TRUE(h.client(i).status().ok()) << h.client(i).status();
    for (const testing::Received& choice : h.client(i).choices)
      answers.tokens.push_back(choice.tokens);
  }
  return answers;
}

TEST(ForcedDrafts, AnswersAreTheSameInFewerSteps) {
  for (const bool long_tokens : {false, true}) {
    for (const int sequences : {1, 3, 8}) {
      const Answers without = Serve(false, false, long_tokens, sequences, 512);
      const Answers with = Serve(true, false, long_tokens, sequences, 512);
      EXPECT_EQ(with.tokens, without.tokens) << sequences;
      EXPECT_EQ(without.stats.draft_tokens, 0u);
      EXPECT_GT(with.stats.accepted_tokens, 20u) << sequences;
      EXPECT_LT(with.stats.steps, without.stats.steps) << sequences;
    }
  }
}

TEST(ForcedDrafts, NearlyAllComeTrueWhereTokensAreCharacters) {
  const Answers answers = Serve(true, false, /*long_tokens=*/false, 1, 512);
  // Whitespace that the model may write anywhere is a draw of its own.
  EXPECT_GT(3 * answers.stats.accepted_tokens, answers.stats.draft_tokens);
}

TEST(ForcedDrafts, AnswersAreTheSameBesideOtherProposals) {
  const Answers without = Serve(false, false, true, 4, 512);
  EXPECT_EQ(Serve(true, true, true, 4, 512).tokens, without.tokens);
  EXPECT_EQ(Serve(false, true, true, 4, 512).tokens, without.tokens);
}

TEST(ForcedDrafts, AnswersAreTheSameInLittleMemory) {
  const Answers without = Serve(false, false, true, 8, 512);
  const Answers with = Serve(true, false, true, 8, kFewBlocks);
  EXPECT_EQ(with.tokens, without.tokens);
}

}  // namespace
}  // namespace tutti::engine
