// The semantic cache with fake models: the test sets vectors, scores and answers.
#include "services/cache/semantic_cache.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/testing/fake_inference.h"

namespace tutti::cache {
namespace {

using api::testing::FakeEncoding;
using api::testing::FakeGeneration;
using api::testing::FakeInference;
using api::testing::FakeModel;
using std::chrono::seconds;

FakeModel Generator() {
  FakeModel model;
  model.info.id = "m";
  model.info.vocab_size = 256;
  model.info.digest = "d";
  return model;
}
FakeModel Encoder() {
  FakeModel model;
  model.info.id = "e";
  model.info.generates = false;
  model.info.encoder.emplace();
  model.info.encoder->width = 2;
  model.info.encoder->pairs = true;
  model.info.encoder->labels = {"same"};
  model.check = [](const api::EncodeRequest&, const api::ModelInfo&) { return OkStatus(); };
  model.answer = [](const api::EncodeRequest&, const api::ModelInfo&) {
    return api::EncodeResult{};
  };
  return model;
}

// The observer of one request, like the ledger.
class Told final : public api::RequestObserver {
 public:
  struct Seen {
    int ends = 0, first_tokens = 0;
    Status status;
    api::Usage usage;
  };
  explicit Told(std::shared_ptr<Seen> seen) : seen_(std::move(seen)) {}
  void FirstToken() noexcept override { ++seen_->first_tokens; }
  Status End(Status status, const api::Usage& usage, const api::Timings&) noexcept override {
    ++seen_->ends;
    seen_->status = status;
    seen_->usage = usage;
    return status;
  }

 private:
  const std::shared_ptr<Seen> seen_;
};

class SemanticCacheTest : public ::testing::Test {
 protected:
  SemanticCacheTest() {
    options_.mode = SemanticMode::kOn;
    options_.routes = {"chat.completions"};
    inference_.on_encode = [this](const std::shared_ptr<FakeEncoding>& encoding) {
      if (encoding->request.output == api::EncodeOutput::kScores) {
        api::EncodeResult result;
        result.width = 1;
        result.values = scores_;
        encoding->state->Finish(std::move(result));
      } else if (encoder_fails_) {
        encoding->state->Finish(Unavailable("overloaded", "no"));
      } else if (!holds_) {
        api::EncodeResult result;
        result.width = 2;
        result.values = {static_cast<float>(std::cos(angle_)),
                         static_cast<float>(std::sin(angle_))};
        encoding->state->Finish(std::move(result));
      }
      return OkStatus();
    };
    inference_.on_generate = [this](const std::shared_ptr<FakeGeneration>& generation) {
      if (!answers_by_itself_) return OkStatus();
      const auto& chat = std::get<api::ChatPrompt>(generation->request.prompt);
      const std::string& text = chat.messages.back().content;
      const bool judges = text.starts_with("Question 1:");
      generation->AppendAnswer({judges    ? judgement_
                                : answer_ ? answer_(text)
                                          : "answer to " + text});
      return OkStatus();
    };
    Make();
  }
  void Make() { cache_ = std::make_unique<SemanticCache>(options_, inference_, clock_); }

  static api::GenerateRequest Ask(const std::string& text) {
    api::GenerateRequest request;
    request.model = "m";
    request.tenant = "t";
    request.route = "chat.completions";
    request.sampling.temperature = 0;
    api::ChatPrompt chat;
    chat.messages = {{api::Role::kSystem, "Be brief.", ""}, {api::Role::kUser, text, ""}};
    request.prompt = std::move(chat);
    request.cache_report = std::make_shared<api::CacheReport>();
    return request;
  }
  // The cosine to a vector of angle 0 is `cosine`.
  void AtCosine(double cosine) { angle_ = std::acos(cosine); }
  struct Got {
    std::string text;
    Status status;
    bool hit = false, kept = false;
    double similarity = 0;
    std::string source;
  };
  Got Run(api::GenerateRequest request) {
    const auto report = request.cache_report;
    Result<api::Generation> generation = cache_->Generate(std::move(request), nullptr);
    EXPECT_TRUE(generation.ok()) << generation.status();
    Got got;
    if (!generation.ok()) return got;
    while (const api::StreamEvent* event = generation->Next()) {
      got.text += event->text;
      got.kept = event->usage.cached_response;
    }
    EXPECT_TRUE(generation->stream().ended());
    if (generation->stream().ended()) got.status = generation->stream().status();
    got.hit = report->outcome() == api::CacheOutcome::kHit;
    got.similarity = report->similarity();
    got.source = report->source();
    return got;
  }
  Got Run(const std::string& text) { return Run(Ask(text)); }

  SemanticOptions options_;
  ManualClock clock_;
  FakeInference inference_{{Generator(), Encoder()}};
  double angle_ = 0;
  std::vector<float> scores_;
  std::string judgement_ = "Yes";
  bool encoder_fails_ = false, holds_ = false, answers_by_itself_ = true;
  std::function<std::string(const std::string&)> answer_;
  std::unique_ptr<SemanticCache> cache_;
};

TEST_F(SemanticCacheTest, AParaphraseIsGivenTheAnswerThatWasKept) {
  const Got first = Run("What is the capital of France?");
  EXPECT_FALSE(first.hit);
  EXPECT_EQ(first.text, "answer to What is the capital of France?");
  clock_.Advance(seconds(7));
  const auto request = Ask("what's the capital of france");
  const auto report = request.cache_report;
  const auto seen = std::make_shared<Told::Seen>();
  auto told = request;
  told.observer = std::make_shared<Told>(seen);
  const Got second = Run(std::move(told));
  EXPECT_TRUE(second.hit);
  EXPECT_EQ(second.text, first.text);
  EXPECT_TRUE(second.kept);
  EXPECT_EQ(report->age(), seconds(7));
  EXPECT_NEAR(second.similarity, 1, 1e-6);
  EXPECT_EQ(second.source, "sem_1");
  EXPECT_EQ(seen->ends, 1);
  EXPECT_EQ(seen->first_tokens, 1);
  EXPECT_TRUE(seen->usage.cached_response);
  EXPECT_EQ(inference_.generations(), 1u);
  EXPECT_EQ(cache_->stats().hits, 1u);
}

TEST_F(SemanticCacheTest, ARequestWithToolsIsNeitherKeptNorGiven) {
  const auto with_tools = [](const std::string& text) {
    api::GenerateRequest request = Ask(text);
    std::get<api::ChatPrompt>(request.prompt).tools = {{.name = "weather"}};
    return request;
  };
  Run(with_tools("What is the capital of France?"));
  EXPECT_FALSE(Run("What is the capital of France?").hit) << "nothing was kept";
  EXPECT_FALSE(Run(with_tools("What is the capital of France?")).hit);
  EXPECT_TRUE(Run("what's the capital of france").hit);
  EXPECT_EQ(cache_->stats().bypasses, 2u);
}

TEST_F(SemanticCacheTest, EarlierCallsAreAQuestionOfTheirOwn) {
  const auto behind = [](const std::string& result, const std::string& arguments) {
    api::GenerateRequest request = Ask("What is the capital of France?");
    auto& messages = std::get<api::ChatPrompt>(request.prompt).messages;
    api::ChatMessage calls, answer;
    calls.role = api::Role::kAssistant;
    calls.tool_calls = {{"call_1", "lookup", arguments}};
    answer.role = api::Role::kTool;
    answer.content = result;
    answer.tool_call_id = "call_1";
    messages.insert(messages.end() - 1, {calls, answer});
    return request;
  };
  Run(behind("1", "{}"));
  EXPECT_TRUE(Run(behind("1", "{}")).hit);
  EXPECT_FALSE(Run(behind("2", "{}")).hit);
  EXPECT_FALSE(Run(behind("1", R"({"a":1})")).hit);
}

// Row U54.
TEST_F(SemanticCacheTest, At985ItHitsAndAt975ItMissesAndAClientMayOnlyTighten) {
  Run("What is the capital of France?");
  AtCosine(0.985);
  EXPECT_TRUE(Run("what's the capital of France").hit);
  api::GenerateRequest strict = Ask("what's the capital of France");
  strict.cache.least_similarity = 0.99;
  EXPECT_FALSE(Run(std::move(strict)).hit);
  cache_->Flush(std::nullopt);
  AtCosine(1);
  Run("What is the capital of France?");
  AtCosine(0.975);
  EXPECT_FALSE(Run("what's the capital of France").hit);
  api::GenerateRequest loose = Ask("what's the capital of France?");
  loose.cache.least_similarity = 0.5;
  AtCosine(-0.2);
  EXPECT_FALSE(Run(std::move(loose)).hit);
}

TEST_F(SemanticCacheTest, WordsThatMatterRefuseWhateverTheCosine) {
  Run("Is it open by default?");
  EXPECT_FALSE(Run("Is it closed by default?").hit);
  EXPECT_FALSE(Run("Is it not open by default?").hit);
  EXPECT_EQ(cache_->stats().guarded, 2u);
}

// Rows U55, N43: property test over all fields of a request.
TEST_F(SemanticCacheTest, NothingCrossesTenantsPromptsHistoriesOrParameters) {
  const std::string text = "What is the capital of France?";
  Run(text);
  const auto chat = [](api::GenerateRequest& request) -> api::ChatPrompt& {
    return std::get<api::ChatPrompt>(request.prompt);
  };
  const std::vector<std::function<void(api::GenerateRequest&)>> changes = {
      [](auto& r) { r.tenant = "other"; },
      [](auto& r) { r.cache_salt = "salt"; },
      [&](auto& r) { chat(r).messages[0].content = "Be long."; },
      [&](auto& r) { chat(r).messages[0].name = "ops"; },
      [&](auto& r) { chat(r).messages[1].name = "bob"; },
      [&](auto& r) { chat(r).messages.erase(chat(r).messages.begin()); },
      [&](auto& r) {
        chat(r).messages.insert(chat(r).messages.begin() + 1, {api::Role::kUser, "Hi", ""});
      },
      [&](auto& r) { chat(r).messages[0].role = api::Role::kAssistant; },
      [](auto& r) { r.sampling.max_tokens = 5; },
      [](auto& r) { r.sampling.min_tokens = 1; },
      [](auto& r) { r.sampling.stop = {"x"}; },
      [](auto& r) { r.sampling.stop_token_ids = {5}; },
      [](auto& r) {
        r.sampling.logit_bias = {{5, 1.f}};
      },
      [](auto& r) { r.sampling.repetition_penalty = 1.1; },
      [](auto& r) { r.sampling.presence_penalty = 0.5; },
      [](auto& r) { r.sampling.frequency_penalty = 0.5; },
      [](auto& r) { r.sampling.allowed_token_ids = {1}; },
      [](auto& r) { r.sampling.banned_token_ids = {1}; },
      [](auto& r) { r.sampling.ignore_eos = true; },
      [](auto& r) { r.sampling.seed = 5; },
      [](auto& r) { r.sampling.top_k = 5; },
      [](auto& r) { r.truncate_prompt_tokens = 5; },
      [](auto& r) { r.use_prefix_cache = false; }};
  for (size_t i = 0; i < changes.size(); ++i) {
    api::GenerateRequest request = Ask(text);
    changes[i](request);
    EXPECT_FALSE(Run(std::move(request)).hit) << i;
  }
  EXPECT_TRUE(Run(text).hit);
}

TEST_F(SemanticCacheTest, WhatIsDrawnCountedOrNotOfferedPasses) {
  const std::string text = "What is the capital of France?";
  Run(text);
  const std::vector<std::function<void(api::GenerateRequest&)>> changes = {
      [](auto& r) { r.sampling.temperature = 0.5; }, [](auto& r) { r.n = 2; },
      [](auto& r) { r.sampling.logprobs = 1; },      [](auto& r) { r.route = "completions"; },
      [](auto& r) { r.cache.no_store = true; },      [](auto& r) { r.cache.no_cache = true; }};
  for (size_t i = 0; i < changes.size(); ++i) {
    api::GenerateRequest request = Ask(text);
    changes[i](request);
    EXPECT_FALSE(Run(std::move(request)).hit) << i;
  }
  api::GenerateRequest raw = Ask(text);
  raw.prompt = api::TextPrompt{text};
  Result<api::Generation> generation = cache_->Generate(Ask("x"), nullptr);
  EXPECT_TRUE(generation.ok());
}

TEST_F(SemanticCacheTest, AgeFlushAndNoCacheAreHonoured) {
  options_.limits.ttl = seconds(60);
  Make();
  const std::string text = "What is the capital of France?";
  Run(text);
  clock_.Advance(seconds(30));
  api::GenerateRequest fresh = Ask(text);
  fresh.cache.max_age = seconds(10);
  EXPECT_FALSE(Run(std::move(fresh)).hit);  // and it is stored again
  EXPECT_TRUE(Run(text).hit);
  clock_.Advance(seconds(61));
  EXPECT_FALSE(Run(text).hit);
  EXPECT_TRUE(Run(text).hit);
  EXPECT_GT(cache_->Flush("t"), 0u);
  EXPECT_FALSE(Run(text).hit);
  EXPECT_EQ(cache_->Flush("other"), 0u);
  EXPECT_TRUE(Run(text).hit);
  cache_->Halve();
  cache_->Flush(std::nullopt);
  EXPECT_EQ(cache_->stats().entries, 0u);
}

TEST_F(SemanticCacheTest, BytesAreBounded) {
  options_.limits = {.bytes = 100'000, .tenant_bytes = 50'000};
  Make();
  for (int i = 0; i < 500; ++i) Run("Question number " + std::to_string(i));
  EXPECT_LE(cache_->stats().bytes, 50'000u);
  EXPECT_GT(cache_->stats().entries, 10u);
  EXPECT_TRUE(Run("question number 499").hit);
  EXPECT_FALSE(Run("question number 3").hit);
}

TEST_F(SemanticCacheTest, WhatFailsOrIsLeftIsNotKept) {
  const std::string text = "What is the capital of France?";
  answers_by_itself_ = false;
  {
    auto generation = cache_->Generate(Ask(text), nullptr);
    ASSERT_TRUE(generation.ok());
    EXPECT_EQ(generation->Next(), nullptr);
    inference_.Generation(0)->Started();
    inference_.Generation(0)->Token("Par");
    EXPECT_NE(generation->Next(), nullptr);
  }
  EXPECT_TRUE(inference_.Generation(0)->cancelled.load());
  auto failed = cache_->Generate(Ask(text), nullptr);
  EXPECT_EQ(failed->Next(), nullptr);
  inference_.Generation(1)->Started();
  inference_.Generation(1)->End(Unavailable("overloaded", "no"));
  while (failed->Next() != nullptr) continue;
  EXPECT_EQ(failed->stream().status().reason(), "overloaded");
  answers_by_itself_ = true;
  EXPECT_FALSE(Run(text).hit);
  EXPECT_EQ(cache_->stats().entries, 1u);
}

TEST_F(SemanticCacheTest, WithoutAVectorItIsComputed) {
  encoder_fails_ = true;
  EXPECT_EQ(Run("What is it?").text, "answer to What is it?");
  EXPECT_EQ(cache_->stats().failed, 1u);
  EXPECT_EQ(cache_->stats().entries, 0u);
}

TEST_F(SemanticCacheTest, WhoLeavesWhileItIsEmbeddedIsToldOnce) {
  holds_ = true;
  const auto seen = std::make_shared<Told::Seen>();
  api::GenerateRequest request = Ask("What is it?");
  request.observer = std::make_shared<Told>(seen);
  {
    auto generation = cache_->Generate(std::move(request), nullptr);
    ASSERT_TRUE(generation.ok());
    EXPECT_EQ(generation->Next(), nullptr);
  }
  EXPECT_EQ(seen->ends, 1);
  EXPECT_EQ(seen->status.reason(), "cancelled");
  EXPECT_TRUE(inference_.Encoding(0)->cancelled.load());
  EXPECT_EQ(inference_.generations(), 0u);
}

// Row N42: where words differ a verifier decides.
TEST_F(SemanticCacheTest, ACrossEncoderDecidesWhereWordsDiffer) {
  const std::string one = "How do I repair a bicycle?", other = "How do I fix a bicycle?";
  Run(one);
  EXPECT_FALSE(Run(other).hit);  // lexical: no verifier
  options_.verifier = Verifier::kCrossEncoder;
  Make();
  Run(one);
  scores_ = {0.95f, 0.5f};
  EXPECT_FALSE(Run(other).hit);
  EXPECT_EQ(cache_->stats().unverified, 1u);
  cache_->Flush(std::nullopt);
  Run(one);
  scores_ = {0.95f, 0.97f};
  const Got got = Run(other);
  EXPECT_TRUE(got.hit);
  EXPECT_EQ(got.text, "answer to " + one);
  // A pair that the words refuse does not reach the verifier.
  EXPECT_FALSE(Run("How do I not repair a bicycle?").hit);
}

TEST_F(SemanticCacheTest, TheModelDecidesInOneWord) {
  options_.verifier = Verifier::kModel;
  Make();
  const std::string one = "How do I repair a bicycle?", other = "How do I fix a bicycle?";
  Run(one);
  judgement_ = "No.";
  EXPECT_FALSE(Run(other).hit);
  cache_->Flush(std::nullopt);
  Run(one);
  judgement_ = " yes";
  EXPECT_TRUE(Run(other).hit);
}

// Row N42: the rate that shadow mode reports, of 1,000 labelled pairs.
TEST_F(SemanticCacheTest, ShadowModeNeverAnswersAndMeasuresTheRate) {
  options_.mode = SemanticMode::kShadow;
  options_.limits.bytes = options_.limits.tenant_bytes = 64 << 20;
  Make();
  int false_hits = 0;
  for (int i = 0; i < 1000; ++i) {
    const bool wrong = i % 37 == 0;
    const std::string question = "what colour has thing" + std::to_string(i) + "x";
    answer_ = [&](const std::string&) { return std::string("It is red, as all such things are."); };
    Run(question);
    if (wrong) {
      answer_ = [&](const std::string&) {
        return std::string("Nobody has ever seen one of them.");
      };
      ++false_hits;
    }
    EXPECT_FALSE(Run("Please, " + question + "?").hit);
  }
  const SemanticStats stats = cache_->stats();
  EXPECT_EQ(stats.right + stats.wrong, 1000u);
  EXPECT_NEAR(stats.false_hit_rate, false_hits / 1000.0, 0.01);
  EXPECT_GT(stats.false_hit_bound, stats.false_hit_rate);
  EXPECT_FALSE(stats.answers);
  EXPECT_EQ(stats.hits, 0u);
}

TEST_F(SemanticCacheTest, AutoAnswersOnlyOnceEnoughWasRightAndStopsAboveTheLimit) {
  options_.mode = SemanticMode::kAuto;
  options_.limits.bytes = options_.limits.tenant_bytes = 64 << 20;
  Make();
  answer_ = [](const std::string&) { return std::string("It is red, as all such things are."); };
  int compared = 0;
  const std::string question = "what colour has the thing";
  Run(question);
  while (!cache_->stats().answers && compared < 2000) {
    EXPECT_FALSE(Run("please " + question).hit);
    ++compared;
  }
  // The number of comparisons that brings the upper end of the interval to 1 %.
  EXPECT_NEAR(compared, 268, 2);
  EXPECT_TRUE(Run(question).hit);
  // One hit in twenty is still compared, and its result counts.
  answer_ = [](const std::string&) { return std::string("Nobody has ever seen one of them."); };
  int hits = 1;
  for (int i = 0; i < 400 && cache_->stats().answers; ++i) hits += Run(question).hit;
  EXPECT_FALSE(cache_->stats().answers);
  EXPECT_GT(hits, 10);
}

TEST_F(SemanticCacheTest, TheBoundIsWilsons) {
  EXPECT_EQ(FalseHitBound(0, 0), 1);
  EXPECT_NEAR(FalseHitBound(0, 268), 0.01, 1e-4);
  EXPECT_NEAR(FalseHitBound(10, 100), 0.1604, 0.0005);
  EXPECT_NEAR(FalseHitBound(5, 5), 1, 1e-9);
}

}  // namespace
}  // namespace tutti::cache
