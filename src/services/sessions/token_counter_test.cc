#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "api/inference.h"
#include "services/sessions/turn_prompt.h"

namespace tutti::sessions {
namespace {

// A front whose worker does not answer: it takes all of each question's patience.
class Unanswering final : public api::Inference {
 public:
  Duration waited{};  // by the strand

  Result<api::TokenizeResult> Tokenize(const api::TokenizeRequest& request) override {
    waited += request.patience;
    return Unavailable("overloaded", "the worker did not answer in time");
  }
  Result<std::string> Detokenize(const api::DetokenizeRequest&) override { return std::string(); }
  Result<api::Generation> Generate(api::GenerateRequest, std::shared_ptr<Waker>) override {
    return Unavailable("overloaded", "no");
  }
  Result<api::Encoding> Encode(api::EncodeRequest, std::shared_ptr<Waker>) override {
    return Unavailable("overloaded", "no");
  }
  api::ModelList Models() const override { return {}; }
  api::LoadSnapshot Load() const override { return {}; }
  Result<api::ModelStatistics> Statistics(const std::string&) const override {
    return Unavailable("overloaded", "no");
  }
};

// All dialogs stand still meanwhile; it was two seconds.
TEST(TokenCounter, TheStrandWaitsForAWorkerHalfASecondAtMost) {
  Unanswering inference;
  SteadyClock clock;
  TokenCounter counter(inference, clock);
  EXPECT_EQ(counter.Count("m", "text").status().reason(), "overloaded");
  EXPECT_LE(inference.waited, std::chrono::milliseconds(500));
  inference.waited = {};
  EXPECT_EQ(counter.TemplateOf("m").status().reason(), "overloaded");
  EXPECT_LE(inference.waited, std::chrono::milliseconds(500)) << "and asks nothing more";
}

// A listed model that is loaded when the test lets it be.
class Loading final : public api::Inference {
 public:
  bool loaded = false;
  int blocked = 0, looked = 0;  // calls of Tokenize() before the load, and of Models()
  std::vector<Done<api::TokenizeResult>> asked;

  Result<api::TokenizeResult> Tokenize(const api::TokenizeRequest&) override {
    if (!loaded) ++blocked;
    api::TokenizeResult result;
    result.tokens = {1};
    result.max_model_len = 100;
    return result;
  }
  void TokenizeLater(api::TokenizeRequest, Done<api::TokenizeResult> done) override {
    asked.push_back(std::move(done));
  }
  Result<std::string> Detokenize(const api::DetokenizeRequest&) override { return std::string(); }
  Result<api::Generation> Generate(api::GenerateRequest, std::shared_ptr<Waker>) override {
    return Unavailable("overloaded", "no");
  }
  Result<api::Encoding> Encode(api::EncodeRequest, std::shared_ptr<Waker>) override {
    return Unavailable("overloaded", "no");
  }
  api::ModelList Models() const override {
    ++const_cast<Loading*>(this)->looked;
    api::ModelInfo info;
    info.id = "m";
    info.status.state = loaded ? api::ModelState::kLoaded : api::ModelState::kLoading;
    return std::vector<api::ModelInfo>{info};
  }
  api::LoadSnapshot Load() const override { return {}; }
  Result<api::ModelStatistics> Statistics(const std::string&) const override {
    return Unavailable("overloaded", "no");
  }
};

// Regression: each turn for a model that waited for room held the strand for half a second.
TEST(TokenCounter, AModelThatIsNotLoadedHoldsNobodyUp) {
  Loading inference;
  ManualClock clock;
  TokenCounter counter(inference, clock);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(counter.Ready("m").reason(), "model_loading");
    clock.Advance(std::chrono::milliseconds(200));
  }
  EXPECT_EQ(inference.asked.size(), 1u) << "one question for all turns";
  EXPECT_EQ(inference.looked, 1);
  EXPECT_EQ(inference.blocked, 0);
  inference.loaded = true;
  inference.asked.back()(api::TokenizeResult{});
  EXPECT_TRUE(counter.Ready("m").ok());
  EXPECT_TRUE(counter.TemplateOf("m").ok());

  inference.loaded = false;
  clock.Advance(std::chrono::milliseconds(200));
  EXPECT_EQ(counter.Ready("m").reason(), "model_loading") << "it was unloaded";
  ASSERT_EQ(inference.asked.size(), 2u);
  inference.asked.back()(Unavailable("model_load_failed", "its file is broken"));
  EXPECT_EQ(counter.Ready("m").reason(), "model_load_failed");
  EXPECT_EQ(counter.Ready("m").reason(), "model_loading") << "the next turn asks again";
  EXPECT_EQ(inference.asked.size(), 3u);
  EXPECT_EQ(inference.blocked, 0);
}

TEST(TokenCounter, AnUnknownModelIsNotWaitedFor) {
  Loading inference;
  ManualClock clock;
  TokenCounter counter(inference, clock);
  EXPECT_TRUE(counter.Ready("none").ok()) << "Tokenize() returns the error";
  EXPECT_TRUE(inference.asked.empty());
}

}  // namespace
}  // namespace tutti::sessions
