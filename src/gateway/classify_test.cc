// Row R24: classifiers answer decisions.
#include "gateway/classify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "engine/testing/fake_encoder_runner.h"
#include "gateway/encode_result.h"
#include "gateway/gateway.h"
#include "tokenizer/testing/tiny_vocabularies.h"

namespace tutti::gateway {
namespace {

using engine::testing::FakeEncoderRunner;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

api::Prompt Chat(std::vector<std::string> texts) {
  api::ChatPrompt chat;
  for (std::string& text : texts) chat.messages.emplace_back().content = std::move(text);
  return chat;
}

api::Continuation Choice(std::vector<std::string> names) {
  api::Continuation continuation{.text = names.front()};
  continuation.others.assign(names.begin() + 1, names.end());
  return continuation;
}

api::Continuation YesOrNo() {
  api::Continuation continuation{.text = "yes", .others = {"no"}};
  continuation.classes.yes_or_no = true;
  return continuation;
}

api::ModelInfo Labelled(std::vector<std::string> labels) {
  api::ModelInfo info;
  info.id = "m";
  info.encoder.emplace().labels = std::move(labels);
  return info;
}

TEST(Classes, TextEndsBeforeTheQuestion) {
  api::Continuation continuation{.text = "a"};
  continuation.classes.text_bytes = 4;
  EXPECT_EQ(*ClassifiedText(Chat({"text\n\nIs it?"}), continuation), "text");
  EXPECT_EQ(*ClassifiedText(Chat({"one", "two", "textIs it?"}), continuation),
            "one\n\ntwo\n\ntext");
  continuation.classes.text_bytes = 0;
  EXPECT_EQ(*ClassifiedText(Chat({"one", "Is it?"}), continuation), "one");
  EXPECT_EQ(ClassifiedText(Chat({"Is it?"}), continuation).status().reason(), "empty_prompt");
  continuation.classes.text_bytes = 1000;  // from a peer
  EXPECT_EQ(*ClassifiedText(Chat({"text"}), continuation), "text");
  EXPECT_EQ(ClassifiedText(api::TextPrompt{.text = "a"}, continuation).status().param(), "prompt");
}

TEST(Classes, AreFoundByName) {
  const api::ModelInfo model = Labelled({"good", "bad", "true"});
  EXPECT_THAT(*ClassesFor(model, Choice({"true", "good"})), ElementsAre(2, 0));
  api::Continuation levels = Choice({"0", "1"});
  levels.classes.names = {"bad", "good"};
  EXPECT_THAT(*ClassesFor(model, levels), ElementsAre(1, 0));
  const Status status = ClassesFor(model, Choice({"good", "Bad"})).status();
  EXPECT_EQ(status.reason() + " " + status.param(), "invalid_value continuation[1]");
  EXPECT_THAT(status.message(), HasSubstr("its 3 labels are good, bad, true"));
  EXPECT_EQ(ClassesFor(model, Choice({"x", "bad"})).status().param(), "continuation");
}

TEST(Classes, YesIsTheClassOfThatNameOrTheSecond) {
  const auto yes = [](std::vector<std::string> labels) {
    return ClassesFor(Labelled(std::move(labels)), YesOrNo())->front();
  };
  EXPECT_EQ(yes({"NEGATIVE", "POSITIVE"}), 1u);
  EXPECT_EQ(yes({"LABEL_0", "LABEL_1"}), 1u);
  EXPECT_EQ(yes({"Yes", "No"}), 0u);
  EXPECT_EQ(yes({"no", "yes"}), 1u);
  EXPECT_EQ(yes({"spam", "false"}), 0u);
  EXPECT_EQ(yes({"TRUE", "other"}), 0u);
  EXPECT_THAT(*ClassesFor(Labelled({"yes", "no"}), YesOrNo()), ElementsAre(0, 1));
  for (const std::vector<std::string>& labels :
       {std::vector<std::string>{"relevance"}, {"a", "b", "c"}}) {
    const Status status = ClassesFor(Labelled(labels), YesOrNo()).status();
    EXPECT_EQ(status.reason() + " " + status.param(), "invalid_value continuation");
  }
}

TEST(Classes, LogProbabilitiesAreFiniteWhereProbabilitiesAreZero) {
  const std::vector<float> scores = {0, 200, -200};
  const std::vector<double> of_softmax = LogProbabilities(scores, ScoreScale::kSoftmax);
  EXPECT_THAT(of_softmax, ElementsAre(-200.0, 0.0, -400.0));
  const std::vector<double> of_sigmoid = LogProbabilities(scores, ScoreScale::kSigmoid);
  EXPECT_NEAR(of_sigmoid[0], std::log(0.5), 1e-12);
  EXPECT_NEAR(of_sigmoid[1], 0, 1e-12);
  EXPECT_NEAR(of_sigmoid[2], -200, 1e-12);
}

// Equal to a double as a float.
MATCHER_P(FloatEq, value, "") { return arg == static_cast<double>(static_cast<float>(value)); }

// A classifier of three classes over texts of the words a, b and c.
class Classifier : public ::testing::Test {
 protected:
  Classifier() : runner_(Limits(), &clock_) {
    auto encoder = std::make_shared<ServedEncoder>();
    encoder->engine = engine_ = std::make_shared<engine::EncoderEngine>(
        engine::EncoderOptions{},
        engine::EncoderDependencies{.runner = &runner_, .clock = &clock_});
    encoder->max_tokens = 6;
    encoder->scale = ScoreScale::kSoftmax;
    model_->info = Labelled({"good", "bad", "neither"});
    model_->info.vocab_size = 8;
    model_->info.generates = false;
    model_->tokenizer =
        tokenizer::testing::MustCreate(tokenizer::testing::WordPieceSpec({"a", "b", "c"}));
    model_->encoder = std::move(encoder);
  }

  static engine::EncoderLimits Limits() {
    engine::EncoderLimits limits = FakeEncoderRunner::DefaultLimits();
    limits.labels = 3;
    return limits;
  }

  struct Scored {
    Status status;
    int events = 0;
    std::vector<double> logprobs;
    api::Usage usage;
  };
  Scored Score(const std::string& text, api::Continuation continuation) {
    continuation.classes.text_bytes = text.size();
    api::GenerateRequest request;
    request.model = "m";
    request.prompt = Chat({text + "\n\nWhich?"});
    request.score_only = true;
    request.continuation = std::move(continuation);
    Scored scored;
    Result<api::Generation> generation = gateway_.Generate(std::move(request), nullptr);
    scored.status = generation.status();
    if (!generation.ok()) return scored;
    for (int i = 0; i < 2000 && !generation->stream().ended(); ++i) {
      if (!engine_->RunOneStep()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    scored.status = generation->stream().status();
    while (const api::StreamEvent* event = generation->Next()) {
      ++scored.events;
      if (event->kind == api::StreamEvent::Kind::kEnd) scored.usage = event->usage;
      if (!event->logprobs.has_value()) continue;
      scored.logprobs.push_back(static_cast<double>(event->logprobs->chosen.logprob));
      for (const api::Logprob& other : event->logprobs->top)
        scored.logprobs.push_back(static_cast<double>(other.logprob));
    }
    return scored;
  }

  // Log-probabilities of the scores that the encode routes give.
  std::vector<double> Expected(const std::string& text) {
    api::EncodeRequest request;
    request.model = "m";
    request.inputs = {text};
    request.output = api::EncodeOutput::kScores;
    request.raw_scores = true;
    Result<api::Encoding> encoding = gateway_.Encode(std::move(request), nullptr);
    for (int i = 0; i < 2000 && !encoding->done(); ++i) (void)engine_->RunOneStep();
    return LogProbabilities(encoding->Take()->values, ScoreScale::kSoftmax);
  }

  ManualClock clock_;
  FakeEncoderRunner runner_;
  std::shared_ptr<engine::EncoderEngine> engine_;
  std::shared_ptr<ServedModel> model_ = std::make_shared<ServedModel>();
  Gateway gateway_{{}, clock_};
};

TEST_F(Classifier, AnswersWithTheProbabilitiesOfItsClasses) {
  gateway_.AddModel(model_);
  const std::vector<double> expected = Expected("a b");
  ASSERT_EQ(expected.size(), 3u);
  const Scored scored = Score("a b", Choice({"neither", "good", "bad"}));
  ASSERT_TRUE(scored.status.ok()) << scored.status;
  EXPECT_THAT(scored.logprobs,
              ElementsAre(FloatEq(expected[2]), FloatEq(expected[0]), FloatEq(expected[1])));
  EXPECT_EQ(scored.usage.prompt_tokens, 4);  // the text and two special tokens, no question
  EXPECT_EQ(Score("a b", Choice({"neither", "good", "bad"})).logprobs, scored.logprobs);
}

// Several questions of one call about a text, and one of another call.
TEST_F(Classifier, QuestionsOfOneCallShareTheirText) {
  gateway_.AddModel(model_);
  const auto ask = [&](const std::string& id, api::Continuation continuation, bool shares = true) {
    continuation.classes.text_bytes = 3;
    api::GenerateRequest request;
    request.model = "m";
    request.request_id = id;
    request.prompt = Chat({"a b\n\nWhich?"});
    request.score_only = true;
    request.continuation = std::move(continuation);
    request.use_prefix_cache = shares;
    return gateway_.Generate(std::move(request), nullptr);
  };
  std::vector<Result<api::Generation>> all;
  all.push_back(ask("call", Choice({"good", "bad"})));
  all.push_back(ask("call", Choice({"bad", "good"})));
  all.push_back(ask("call", Choice({"neither", "bad"})));
  all.push_back(ask("other", Choice({"good", "bad"})));
  all.push_back(ask("call", Choice({"good", "bad"}), /*shares=*/false));
  for (const auto& one : all) ASSERT_TRUE(one.ok()) << one.status();
  all[0]->Cancel();  // the others still want the text
  EXPECT_TRUE(all[0]->stream().ended());
  EXPECT_EQ(all[0]->stream().status().reason(), "cancelled");
  const std::vector<double> expected = Expected("a b");
  EXPECT_EQ(engine_->stats().items, 4u) << "three texts for five questions, and the expectation";
  const int cached[] = {0, 0, 4, 0, 0};
  const std::pair<size_t, size_t> classes[] = {{0, 1}, {1, 0}, {2, 1}, {0, 1}, {0, 1}};
  for (size_t i = 1; i < all.size(); ++i) {
    std::vector<double> logprobs;
    while (const api::StreamEvent* event = all[i]->Next()) {
      if (event->kind == api::StreamEvent::Kind::kEnd) {
        EXPECT_EQ(event->usage.prompt_tokens, 4) << i;
        EXPECT_EQ(event->usage.cached_tokens, cached[i]) << i;
      }
      if (!event->logprobs.has_value()) continue;
      logprobs.push_back(static_cast<double>(event->logprobs->chosen.logprob));
      logprobs.push_back(static_cast<double>(event->logprobs->top.front().logprob));
    }
    EXPECT_THAT(logprobs, ElementsAre(FloatEq(expected[classes[i].first]),
                                      FloatEq(expected[classes[i].second])))
        << i;
  }
  EXPECT_TRUE(ask("call", Choice({"good", "bad"})).ok()) << "the text is computed again";
}

TEST_F(Classifier, TheLastQuestionsCancelEndsTheirText) {
  gateway_.AddModel(model_);
  {
    std::vector<Result<api::Generation>> all;
    for (int i = 0; i < 3; ++i) {
      api::GenerateRequest request;
      request.model = "m";
      request.request_id = "call";
      request.prompt = Chat({"aWhich?"});
      request.score_only = true;
      request.continuation = Choice({"good", "bad"});
      request.continuation->classes.text_bytes = 1;
      all.push_back(gateway_.Generate(std::move(request), nullptr));
      ASSERT_TRUE(all.back().ok()) << all.back().status();
    }
  }
  for (int i = 0; i < 100; ++i) (void)engine_->RunOneStep();
  EXPECT_EQ(engine_->stats().requests, 0);
  EXPECT_EQ(engine_->stats().items, 0u);
}

TEST_F(Classifier, CoveredLabelsComputeNothing) {
  gateway_.AddModel(model_);
  const Scored covered = Score("a", {.text = "anything", .covered = true});
  EXPECT_TRUE(covered.status.ok()) << covered.status;
  EXPECT_EQ(covered.events, 1);
  EXPECT_EQ(engine_->stats().items, 0u);
}

TEST_F(Classifier, ATemperatureDividesLogProbabilities) {
  model_->info.decision_temperature = 2;
  gateway_.AddModel(model_);
  const std::vector<double> expected = Expected("a b");
  EXPECT_THAT(Score("a b", Choice({"good", "bad"})).logprobs,
              ElementsAre(FloatEq(expected[0] / 2), FloatEq(expected[1] / 2)));
}

TEST_F(Classifier, ErrorsNameTheLabelOrThePrompt) {
  gateway_.AddModel(model_);
  const auto refusal = [&](const std::string& text, api::Continuation continuation) {
    const Status status = Score(text, std::move(continuation)).status;
    return status.reason() + " " + status.param();
  };
  EXPECT_EQ(refusal("a", YesOrNo()), "invalid_value continuation");
  EXPECT_EQ(refusal("a", Choice({"good", "worse"})), "invalid_value continuation[1]");
  EXPECT_EQ(refusal("a b c a b c", Choice({"good", "bad"})), "context_length_exceeded prompt");
  EXPECT_EQ(refusal("", Choice({"good", "bad"})), "empty_prompt prompt");
}

TEST_F(Classifier, ADestroyedGenerationCancelsItsEncoding) {
  gateway_.AddModel(model_);
  {
    api::GenerateRequest request;
    request.model = "m";
    request.prompt = Chat({"aWhich?"});
    request.score_only = true;
    request.continuation = Choice({"good", "bad"});
    request.continuation->classes.text_bytes = 1;
    Result<api::Generation> generation = gateway_.Generate(std::move(request), nullptr);
    ASSERT_TRUE(generation.ok()) << generation.status();
  }
  for (int i = 0; i < 100; ++i) (void)engine_->RunOneStep();
  EXPECT_EQ(engine_->stats().requests, 0);
  EXPECT_EQ(engine_->stats().items, 0u);
}

}  // namespace
}  // namespace tutti::gateway
