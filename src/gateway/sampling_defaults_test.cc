// A model's sampling defaults, from a silent request to what is drawn and to the caches' keys.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/clock.h"
#include "engine/testing/fake_model_runner.h"
#include "gateway/gateway.h"
#include "tokenizer/testing/tiny_vocabularies.h"

namespace tutti::gateway {
namespace {

// A model that draws letters at random, whose makers say `defaults`.
class Drawing {
 public:
  explicit Drawing(const api::SamplingDefaults& defaults) : gateway_({}, clock_) {
    fake_.limits.vocab_size = 300;
    runner_ = std::make_unique<engine::testing::TimingRunner>(fake_, engine::testing::TimingModel{},
                                                              &clock_);
    model_->info.id = "letters";
    model_->info.vocab_size = 300;
    model_->info.sampling = defaults;
    model_->tokenizer = tokenizer::Tokenizer::Create(tokenizer::testing::ByteLevelSpec()).value();
    model_->engine = std::make_shared<engine::Engine>(
        engine::EngineOptions{},
        engine::EngineDependencies{.runner = runner_.get(), .text = &text_, .clock = &clock_});
    gateway_.AddModel(model_);
  }

  std::vector<TokenId> Draw(api::SamplingParams sampling) {
    sampling.seed = 7;
    sampling.max_tokens = 32;
    sampling.ignore_eos = true;
    api::GenerateRequest request;
    request.model = "letters";
    request.prompt = api::TextPrompt{.text = "say letters"};
    request.sampling = sampling;
    Result<api::Generation> generation = gateway_.Generate(std::move(request), nullptr);
    EXPECT_TRUE(generation.ok()) << generation.status();
    std::vector<TokenId> tokens;
    for (bool ended = false; !ended;) {
      (void)model_->engine->RunOneStep();
      while (const api::StreamEvent* event = generation->Next()) {
        generation->Consumed(event->text.size());
        if (event->kind == api::StreamEvent::Kind::kToken) tokens.push_back(event->token);
        ended = ended || event->kind == api::StreamEvent::Kind::kEnd;
      }
    }
    return tokens;
  }

 private:
  ManualClock clock_;
  engine::testing::FakeModelOptions fake_;
  std::unique_ptr<engine::testing::TimingRunner> runner_;
  const engine::testing::FakeTokenText text_;
  std::shared_ptr<ServedModel> model_ = std::make_shared<ServedModel>();
  Gateway gateway_;
};

TEST(GatewaySamplingDefaults, ASilentRequestIsSampledAsTheMakersSay) {
  api::SamplingParams silent, greedy, hot;
  greedy.temperature = 0;
  hot.temperature = 1.5;
  const std::vector<TokenId> likeliest = Drawing({}).Draw(greedy);
  EXPECT_NE(Drawing({}).Draw(silent), likeliest);
  EXPECT_EQ(Drawing({.temperature = 0.0}).Draw(silent), likeliest);
  EXPECT_EQ(Drawing({.temperature = 1.5}).Draw(silent), Drawing({}).Draw(hot));
}

TEST(GatewaySamplingDefaults, WhatARequestSaysWins) {
  api::SamplingParams usual, greedy;
  usual.temperature = 1;
  greedy.temperature = 0;
  EXPECT_EQ(Drawing({.temperature = 0.0}).Draw(usual), Drawing({}).Draw(usual));
  EXPECT_EQ(Drawing({.temperature = 1.5}).Draw(greedy), Drawing({}).Draw(greedy));
}

}  // namespace
}  // namespace tutti::gateway
