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
  std::vector<api::ModelInfo> Models() const override { return {}; }
  api::LoadSnapshot Load() const override { return {}; }
  Result<api::ModelStatistics> Statistics(const std::string&) const override {
    return Unavailable("overloaded", "no");
  }
};

// All dialogs stand still meanwhile; it was two seconds.
TEST(TokenCounter, TheStrandWaitsForAWorkerHalfASecondAtMost) {
  Unanswering inference;
  TokenCounter counter(inference);
  EXPECT_EQ(counter.Count("m", "text").status().reason(), "overloaded");
  EXPECT_LE(inference.waited, std::chrono::milliseconds(500));
  inference.waited = {};
  EXPECT_EQ(counter.TemplateOf("m").status().reason(), "overloaded");
  EXPECT_LE(inference.waited, std::chrono::milliseconds(500)) << "and asks nothing more";
}

}  // namespace
}  // namespace tutti::sessions
