// Row U75: what a client expects its answer to be, from the request to the usage.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/clock.h"
#include "engine/testing/fake_model_runner.h"
#include "gateway/gateway.h"
#include "tokenizer/testing/tiny_vocabularies.h"

namespace tutti::gateway {
namespace {

struct Answered {
  std::string text;
  api::Usage usage;
  uint64_t steps = 0;
};

// A model that says letters, each a token.
Answered AskLetters(const std::string& prediction, bool speculate, int rows = 300) {
  engine::testing::FakeModelOptions fake;
  fake.limits.vocab_size = rows;
  ManualClock clock;
  engine::testing::TimingRunner runner(fake, {}, &clock);
  const engine::testing::FakeTokenText text;
  engine::EngineOptions options;
  options.scheduler.speculate = speculate;
  auto model = std::make_shared<ServedModel>();
  model->info.id = "letters";
  model->info.vocab_size = rows;
  model->tokenizer = tokenizer::Tokenizer::Create(tokenizer::testing::ByteLevelSpec()).value();
  model->engine = std::make_shared<engine::Engine>(
      options, engine::EngineDependencies{.runner = &runner, .text = &text, .clock = &clock});
  Gateway gateway({}, clock);
  gateway.AddModel(model);
  api::GenerateRequest request;
  request.model = "letters";
  request.prompt = api::TextPrompt{.text = "say letters"};
  request.sampling.temperature = 0;
  request.sampling.max_tokens = 120;
  request.sampling.ignore_eos = true;
  for (TokenId letter = 'a'; letter <= 'z'; ++letter)
    request.sampling.allowed_token_ids.push_back(letter);
  request.prediction = prediction;
  Result<api::Generation> generation = gateway.Generate(std::move(request), nullptr);
  EXPECT_TRUE(generation.ok()) << generation.status();
  Answered answered;
  for (bool ended = false; !ended;) {
    (void)model->engine->RunOneStep();
    while (const api::StreamEvent* event = generation->Next()) {
      generation->Consumed(event->text.size());
      if (event->kind == api::StreamEvent::Kind::kToken)
        answered.text += static_cast<char>(event->token);
      if (event->kind != api::StreamEvent::Kind::kEnd) continue;
      answered.usage = event->usage;
      ended = true;
    }
  }
  answered.steps = model->engine->stats().steps;
  return answered;
}

TEST(Prediction, ARightOneSavesStepsAndTheUsageTellsWhatCameOfIt) {
  const Answered plain = AskLetters("", true);
  EXPECT_EQ(plain.text.size(), 120u);
  EXPECT_EQ(plain.usage.accepted_prediction_tokens + plain.usage.rejected_prediction_tokens, 0);
  const Answered right = AskLetters(plain.text, true);
  EXPECT_EQ(right.text, plain.text);
  EXPECT_EQ(right.usage.accepted_prediction_tokens, 120);
  EXPECT_EQ(right.usage.rejected_prediction_tokens, 0);
  EXPECT_LT(2 * right.steps, plain.steps);
}

TEST(Prediction, ControlTokenSpellingIsTextAndUnusedWhenDraftingIsOff) {
  const Answered plain = AskLetters("", true);
  const Answered wrong = AskLetters("<|end|>", true);
  EXPECT_EQ(wrong.text, plain.text);
  EXPECT_EQ(wrong.usage.rejected_prediction_tokens + wrong.usage.accepted_prediction_tokens, 7);
  const Answered off = AskLetters(plain.text, false);
  EXPECT_EQ(off.text, plain.text);
  EXPECT_EQ(off.usage.accepted_prediction_tokens + off.usage.rejected_prediction_tokens, 0);
}

TEST(Prediction, EndsBeforeATokenWithoutARow) {
  const Answered plain = AskLetters("", true, 259);
  const Answered right = AskLetters(plain.text.substr(0, 60) + "~~~" + plain.text, true, 259);
  EXPECT_EQ(right.text, plain.text);
  EXPECT_EQ(right.usage.accepted_prediction_tokens, 60);
  EXPECT_EQ(right.usage.rejected_prediction_tokens, 0);
}

}  // namespace
}  // namespace tutti::gateway
