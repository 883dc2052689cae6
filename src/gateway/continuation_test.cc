// Row R24: labels as the answer to a prompt, from the request to their log-probabilities.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/testing/fake_model_runner.h"
#include "gateway/gateway.h"
#include "tokenizer/testing/tiny_vocabularies.h"

namespace tutti::gateway {
namespace {

// A model without a chat template.
class Continuations : public ::testing::Test {
 protected:
  struct Scored {
    Status status;
    int tokens = 0;  // that were scored
    double sum = 0;
    std::vector<float> others;
    api::Usage usage;
  };

  Continuations() {
    fake_.limits.vocab_size = 300;
    runner_ = std::make_unique<engine::testing::TimingRunner>(fake_, engine::testing::TimingModel(),
                                                              &clock_);
    auto model = std::make_shared<ServedModel>();
    model->info.id = "m";
    model->info.vocab_size = 300;
    model->tokenizer = tokenizer::Tokenizer::Create(
                           tokenizer::testing::WordPieceSpec({"yes", "no", "maybe", "text"}))
                           .value();
    model->engine = std::make_shared<engine::Engine>(
        engine::EngineOptions(),
        engine::EngineDependencies{.runner = runner_.get(), .text = &text_, .clock = &clock_});
    engine_ = model->engine;
    gateway_.AddModel(std::move(model));
  }

  Scored Score(api::Continuation continuation) {
    api::GenerateRequest request;
    request.model = "m";
    api::ChatPrompt chat;
    std::string& content = chat.messages.emplace_back().content;
    for (int i = 0; i < 80; ++i) content += "text ";
    request.prompt = std::move(chat);
    request.score_only = true;
    request.continuation = std::move(continuation);
    Scored scored;
    Result<api::Generation> generation = gateway_.Generate(std::move(request), nullptr);
    scored.status = generation.status();
    while (generation.ok() && !generation->stream().ended()) (void)engine_->RunOneStep();
    while (const api::StreamEvent* event = generation.ok() ? generation->Next() : nullptr) {
      if (event->kind == api::StreamEvent::Kind::kEnd) scored.usage = event->usage;
      if (!event->logprobs.has_value()) continue;
      ++scored.tokens;
      scored.sum += event->logprobs->chosen.logprob;
      for (const api::Logprob& other : event->logprobs->top) scored.others.push_back(other.logprob);
    }
    return scored;
  }

  engine::testing::FakeModelOptions fake_;
  ManualClock clock_;
  std::unique_ptr<engine::testing::TimingRunner> runner_;
  const engine::testing::FakeTokenText text_;
  std::shared_ptr<engine::Engine> engine_;
  Gateway gateway_{{}, clock_};
};

TEST_F(Continuations, LabelsOfOneTokenShareARow) {
  const Scored lead = Score({.text = "yes", .others = {"no", "yes maybe", "maybe"}});
  ASSERT_TRUE(lead.status.ok()) << lead.status;
  EXPECT_EQ(lead.tokens, 1);
  ASSERT_EQ(lead.others.size(), 2u) << "the label of two tokens has a request of its own";
  EXPECT_EQ(lead.others[0], static_cast<float>(Score({.text = "no"}).sum));
  EXPECT_EQ(lead.others[1], static_cast<float>(Score({.text = "maybe"}).sum));
  EXPECT_NE(lead.others[0], lead.others[1]);
  EXPECT_EQ(Score({.text = "yes"}).sum, lead.sum);
}

TEST_F(Continuations, ACoveredLabelOfOneTokenComputesNothing) {
  const uint64_t before = runner_->tokens_computed();
  const Scored covered = Score({.text = "no", .covered = true});
  EXPECT_TRUE(covered.status.ok()) << covered.status;
  EXPECT_EQ(covered.tokens, 0);
  EXPECT_EQ(covered.usage.prompt_tokens, 0);
  EXPECT_EQ(runner_->tokens_computed(), before);
  const Scored two = Score({.text = "yes maybe", .covered = true});
  EXPECT_EQ(two.tokens, 2);
  const Scored again = Score({.text = "yes maybe", .covered = true});
  EXPECT_EQ(again.sum, two.sum);
  EXPECT_GT(again.usage.cached_tokens, two.usage.cached_tokens);
}

TEST_F(Continuations, RefusesLabelsThatCannotBeTold) {
  const auto refusal = [&](api::Continuation continuation) {
    const Status status = Score(std::move(continuation)).status;
    return status.reason() + " " + status.param();
  };
  EXPECT_EQ(refusal({.text = "yes", .others = {"no", "YES"}}), "invalid_value continuation[2]");
  EXPECT_EQ(refusal({.text = "\x01"}), "invalid_value continuation");
  EXPECT_EQ(refusal({.text = "yes", .others = {"\x01"}}), "invalid_value continuation[1]");
  EXPECT_EQ(refusal({.text = ""}), "invalid_value continuation");
  EXPECT_EQ(refusal({.text = std::string(1025, 'a')}), "invalid_value continuation");
  EXPECT_EQ(refusal({.text = "\xff"}), "invalid_utf8 continuation");
}

}  // namespace
}  // namespace tutti::gateway
