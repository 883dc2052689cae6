#include "api/validate.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>

namespace tutti::api {
namespace {

GenerateRequest Legal() {
  GenerateRequest request;
  request.prompt = TextPrompt{.text = "hello"};
  request.sampling.max_tokens = 8;
  return request;
}

TEST(ValidateRequest, ARefusalNamesTheValue) {
  const auto message = [](const auto& spoil) {
    GenerateRequest request = Legal();
    spoil(request);
    return ValidateRequest(request).message();
  };
  EXPECT_EQ(message([](auto& r) { r.sampling.temperature = 2.5; }),
            "temperature must be between 0 and 2, not 2.5");
  EXPECT_EQ(message([](auto& r) { r.sampling.repetition_penalty = 0; }),
            "repetition_penalty must be above 0 and at most 10, not 0");
  EXPECT_EQ(message([](auto& r) { r.sampling.max_tokens = -3; }),
            "max_tokens must be at least 1, not -3");
  EXPECT_EQ(message([](auto& r) { r.n = 9; }), "n must be between 1 and 8, not 9");
}

struct Case {
  const char* param;
  std::function<void(GenerateRequest&)> spoil;
};

TEST(ValidateRequest, EveryFieldOutOfRangeIsRefusedByItsName) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Case> cases = {
      {"temperature", [](auto& r) { r.sampling.temperature = 2.01; }},
      {"temperature", [](auto& r) { r.sampling.temperature = -0.01; }},
      {"temperature", [=](auto& r) { r.sampling.temperature = kNan; }},
      {"top_p", [](auto& r) { r.sampling.top_p = -0.001; }},
      {"top_p", [=](auto& r) { r.sampling.top_p = kNan; }},
      {"top_k", [](auto& r) { r.sampling.top_k = -2; }},
      {"min_p", [](auto& r) { r.sampling.min_p = 1.5; }},
      {"repetition_penalty", [](auto& r) { r.sampling.repetition_penalty = 0; }},
      {"repetition_penalty", [](auto& r) { r.sampling.repetition_penalty = 10.1; }},
      {"presence_penalty", [](auto& r) { r.sampling.presence_penalty = 2.1; }},
      {"frequency_penalty", [](auto& r) { r.sampling.frequency_penalty = -2.1; }},
      {"logit_bias",
       [](auto& r) {
         r.sampling.logit_bias = {{1, 100.5f}};
       }},
      {"logit_bias", [](auto& r) { r.sampling.logit_bias.resize(1025); }},
      {"stop", [](auto& r) { r.sampling.stop = {""}; }},
      {"stop", [](auto& r) { r.sampling.stop = {std::string(257, 'x')}; }},
      {"stop", [](auto& r) { r.sampling.stop.assign(17, "x"); }},
      {"logprobs", [](auto& r) { r.sampling.logprobs = 21; }},
      {"prompt_logprobs", [](auto& r) { r.sampling.prompt_logprobs = -2; }},
      {"continuation",
       [](auto& r) {
         r.score_only = true;
         r.continuation = {.text = "a", .others = {"b"}, .classes = {.names = {"c"}}};
       }},
      {"continuation",
       [](auto& r) {
         r.score_only = true;
         r.continuation = {.text = "a", .others = {"b", "c"}, .classes = {.yes_or_no = true}};
       }},
      {"continuation",
       [](auto& r) {
         r.score_only = true;
         r.continuation = {.text = "a", .classes = {.names = {""}}};
       }},
      {"max_tokens", [](auto& r) { r.sampling.max_tokens = 0; }},
      {"max_tokens", [](auto& r) { r.score_only = true; }},
      {"min_tokens", [](auto& r) { r.sampling.min_tokens = 9; }},
      {"min_tokens", [](auto& r) { r.sampling.min_tokens = -1; }},
      {"n", [](auto& r) { r.n = 0; }},
      {"n", [](auto& r) { r.n = 9; }},
      {"request_id", [](auto& r) { r.request_id = std::string(129, 'x'); }},
      {"truncate_prompt_tokens", [](auto& r) { r.truncate_prompt_tokens = 0; }},
      {"tenant_weight", [](auto& r) { r.tenant_weight = 0; }},
      {"tenant_weight", [](auto& r) { r.tenant_weight = 100.1; }},
      {"tenant_weight", [=](auto& r) { r.tenant_weight = kNan; }},
      {"messages", [](auto& r) { r.prompt = ChatPrompt{}; }},
      {"messages",
       [](auto& r) {
         r.prompt = ChatPrompt{.messages = {{Role::kUser, "hi", ""}},
                               .add_generation_prompt = false,
                               .continue_final_message = true};
       }},
      {"truncate_prompt_tokens",
       [](auto& r) {
         r.prompt = TextPrompt{.text = "a", .suffix = ""};
         r.truncate_prompt_tokens = 5;
       }},
      {"suffix",
       [](auto& r) {
         r.prompt = TextPrompt{.text = "a", .files = {{"x", "y"}}};
       }},
      {"files",
       [](auto& r) {
         r.prompt = TextPrompt{.text = "a", .suffix = "", .files = {}};
         std::get<TextPrompt>(r.prompt).files.resize(kMaxContextFiles + 1);
       }},
  };
  EXPECT_TRUE(ValidateRequest(Legal()).ok());
  for (const Case& c : cases) {
    GenerateRequest request = Legal();
    c.spoil(request);
    const Status status = ValidateRequest(request);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << c.param;
    EXPECT_EQ(status.param(), c.param) << status.ToString();
  }
}

TEST(PromptBytes, CountsEveryTextOfAHole) {
  const size_t plain = PromptBytes(TextPrompt{.text = "ab"});
  EXPECT_EQ(plain, 2u);
  EXPECT_EQ(PromptBytes(TextPrompt{.text = "ab", .suffix = "cde"}), plain + 3);
  EXPECT_GE(PromptBytes(TextPrompt{.text = "", .suffix = "", .files = {{"x.py", "four"}}}), 8u);
}

TEST(ValidateTokenIds, IdsOutsideTheVocabularyAreNamed) {
  SamplingParams params;
  params.stop_token_ids = {100};
  EXPECT_EQ(ValidateTokenIds(params, 100).reason(), "token_out_of_range");
  EXPECT_TRUE(ValidateTokenIds(params, 101).ok());
  params.logit_bias = {{-1, 1.0f}};
  EXPECT_EQ(ValidateTokenIds(params, 101).param(), "logit_bias");
}

TEST(ValidateTokenIds, BanningEveryAllowedTokenIsRefused) {
  SamplingParams params;
  params.allowed_token_ids = {1, 2};
  params.banned_token_ids = {2, 1};
  EXPECT_EQ(ValidateTokenIds(params, 10).reason(), "invalid_logit_mask");
}

// A long name once ended in half a character.
TEST(ModelNotFound, RepeatsWholeCharactersOfALongName) {
  std::string name = "a";
  for (int i = 0; i < 60; ++i) name += "\u00e9";
  const Status status = ModelNotFound(name);
  EXPECT_TRUE(CheckUtf8(status.message(), "message").ok()) << status;
  EXPECT_NE(status.message().find(name.substr(0, 63) + "\""), std::string::npos) << status;
  EXPECT_TRUE(CheckUtf8(ModelNotFound("a\xff").message(), "message").ok());
  EXPECT_NE(ModelNotFound("nix").message().find("\"nix\""), std::string::npos);
}

TEST(CheckPairBytes, AQueryCountsOnceForEachOfItsDocuments) {
  EXPECT_TRUE(CheckPairBytes(kMaxPairBytes / 4 - 1, 4, 4, "documents").ok());
  const Status status = CheckPairBytes(kMaxPairBytes / 4 - 1, 4, 5, "documents");
  EXPECT_EQ(status.reason(), "request_too_large");
  EXPECT_EQ(status.param(), "documents");
  EXPECT_FALSE(CheckPairBytes(SIZE_MAX, 2, 0, "documents").ok()) << "the product wraps";
  EXPECT_FALSE(CheckPairBytes(SIZE_MAX - 1, 1, 2, "documents").ok()) << "the sum wraps";
}

}  // namespace
}  // namespace tutti::api
