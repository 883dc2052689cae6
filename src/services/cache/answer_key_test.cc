#include "services/cache/answer_key.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tutti::cache {
namespace {

struct Question {
  api::GenerateRequest request;
  std::vector<TokenId> prompt = {1, 2, 3};
  api::ModelInfo model;
  uint64_t instance = 1;
  api::ReasoningMode reasoning = api::ReasoningMode::kKeep;
  bool begins_inside = false;
};

const HashKey kSecret{};

AnswerKey KeyOf(const Question& question, const HashKey& secret = kSecret) {
  return cache::KeyOf({question.request, question.prompt, question.model, question.instance,
                       question.reasoning, question.begins_inside},
                      secret);
}

using Change = std::pair<const char*, std::function<void(Question*)>>;

// One change for each field that can change an answer. The compiler checks that no field of
// SamplingParams and GenerateRequest is forgotten (answer_key.cc binds their members).
const std::vector<Change>& Changes() {
  static const std::vector<Change> all = {
      {"temperature", [](Question* q) { q->request.sampling.temperature = 0.5; }},
      {"top_p", [](Question* q) { q->request.sampling.top_p = 0.5; }},
      {"top_k", [](Question* q) { q->request.sampling.top_k = 5; }},
      {"min_p", [](Question* q) { q->request.sampling.min_p = 0.5; }},
      {"repetition_penalty", [](Question* q) { q->request.sampling.repetition_penalty = 1.5; }},
      {"presence_penalty", [](Question* q) { q->request.sampling.presence_penalty = 0.5; }},
      {"frequency_penalty", [](Question* q) { q->request.sampling.frequency_penalty = 0.5; }},
      {"logit_bias",
       [](Question* q) {
         q->request.sampling.logit_bias = {{7, 1.0f}};
       }},
      {"another token's bias",
       [](Question* q) {
         q->request.sampling.logit_bias = {{8, 1.0f}};
       }},
      {"allowed", [](Question* q) { q->request.sampling.allowed_token_ids = {7}; }},
      {"banned", [](Question* q) { q->request.sampling.banned_token_ids = {7}; }},
      {"seed", [](Question* q) { q->request.sampling.seed = 0; }},
      {"another seed", [](Question* q) { q->request.sampling.seed = 1; }},
      {"max_tokens", [](Question* q) { q->request.sampling.max_tokens = 7; }},
      {"min_tokens", [](Question* q) { q->request.sampling.min_tokens = 7; }},
      {"stop", [](Question* q) { q->request.sampling.stop = {"ab"}; }},
      {"stop, cut elsewhere",
       [](Question* q) {
         q->request.sampling.stop = {"a", "b"};
       }},
      {"stop_token_ids", [](Question* q) { q->request.sampling.stop_token_ids = {7}; }},
      {"ignore_eos", [](Question* q) { q->request.sampling.ignore_eos = true; }},
      {"include_stop", [](Question* q) { q->request.sampling.include_stop_in_output = true; }},
      {"skip_special", [](Question* q) { q->request.sampling.skip_special_tokens = false; }},
      {"logprobs", [](Question* q) { q->request.sampling.logprobs = 0; }},
      {"prompt_logprobs", [](Question* q) { q->request.sampling.prompt_logprobs = 0; }},
      {"n", [](Question* q) { q->request.n = 2; }},
      {"tenant", [](Question* q) { q->request.tenant = "a"; }},
      {"cache_salt", [](Question* q) { q->request.cache_salt = "a"; }},
      {"cache_scope", [](Question* q) { q->request.cache_scope = "family"; }},
      {"use_prefix_cache", [](Question* q) { q->request.use_prefix_cache = false; }},
      {"score_only", [](Question* q) { q->request.score_only = true; }},
      {"hole", [](Question* q) { q->request.prompt = api::TextPrompt{.text = "", .suffix = ""}; }},
      {"prompt",
       [](Question* q) {
         q->prompt = {1, 2, 4};
       }},
      {"longer prompt",
       [](Question* q) {
         q->prompt = {1, 2, 3, 4};
       }},
      {"history",
       [](Question* q) {
         q->prompt = {9, 1, 2, 3};
       }},
      {"model", [](Question* q) { q->model.id = "other"; }},
      {"digest", [](Question* q) { q->model.digest = "other"; }},
      {"model loaded anew", [](Question* q) { q->instance = 2; }},
      {"reasoning", [](Question* q) { q->reasoning = api::ReasoningMode::kHide; }},
      {"begins inside", [](Question* q) { q->begins_inside = true; }},
  };
  return all;
}

TEST(AnswerKey, AnyOneFieldChangedGivesAnotherKeyAndNoTwoTheSame) {
  std::set<std::string> words = {KeyOf(Question()).words};
  std::set<std::array<unsigned char, 32>> hashes = {KeyOf(Question()).hash};
  for (const auto& [name, change] : Changes()) {
    Question question;
    change(&question);
    const AnswerKey key = KeyOf(question);
    EXPECT_EQ(key, KeyOf(question)) << name;
    EXPECT_TRUE(words.insert(key.words).second) << name;
    EXPECT_TRUE(hashes.insert(key.hash).second) << name;
  }
  EXPECT_EQ(words.size(), 39u);
}

TEST(AnswerKey, AnyTwoFieldsChangedGiveAKeyOfTheirOwn) {
  std::set<std::string> words;
  size_t pairs = 0;
  for (size_t i = 0; i < Changes().size(); ++i) {
    for (size_t j = i + 1; j < Changes().size(); ++j) {
      Question one, both;
      Changes()[i].second(&both);
      Changes()[j].second(&both);
      Changes()[j].second(&one);
      if (KeyOf(one) == KeyOf(both)) continue;  // the second took the place of the first
      ++pairs;
      EXPECT_TRUE(words.insert(KeyOf(both).words).second)
          << Changes()[i].first << " and " << Changes()[j].first;
    }
  }
  EXPECT_GT(pairs, 600u);
}

TEST(AnswerKey, WhoAsksAndHowUrgentlyIsNoPartOfIt) {
  Question question;
  question.request.request_id = "r";
  question.request.user = "u";
  question.request.route = "chat.completions";
  question.request.priority = api::Priority::kBatch;
  question.request.deadline = TimePoint{};
  question.request.detached = true;
  question.request.tenant_weight = 4;
  question.request.call_bytes = 7;
  question.request.model = "alias";
  question.request.cache.no_cache = true;
  EXPECT_EQ(KeyOf(question), KeyOf(Question()));
}

TEST(AnswerKey, TheHashIsKeyedAndTheWordsAreNot) {
  HashKey other{};
  other[0] = 1;
  EXPECT_EQ(KeyOf(Question(), other).words, KeyOf(Question()).words);
  EXPECT_NE(KeyOf(Question(), other).hash, KeyOf(Question()).hash);
  EXPECT_NE(DrawHashKey(), DrawHashKey());
}

TEST(AnswerKey, OnlyGreedyAndSeededRequestsAreDeterministic) {
  api::SamplingParams sampling;
  EXPECT_FALSE(Deterministic(sampling));
  sampling.seed = 0;
  EXPECT_TRUE(Deterministic(sampling));
  sampling = {};
  sampling.temperature = 0;
  EXPECT_TRUE(Deterministic(sampling));
}

}  // namespace
}  // namespace tutti::cache
