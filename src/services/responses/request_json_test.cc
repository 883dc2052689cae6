#include "services/responses/request_json.h"

#include <gtest/gtest.h>

#include "api/caller.h"

namespace tutti::responses {
namespace {

api::GenerateRequest Full() {
  api::GenerateRequest request;
  request.request_id = "req-1";
  request.model = "small";
  request.prompt =
      api::ChatPrompt{.messages = {{api::Role::kSystem, "be brief", ""},
                                   {api::Role::kUser, "a \"b\"\n\xF0\x9F\x8E\xB5", "anna"},
                                   {api::Role::kAssistant, "so", ""}},
                      .add_generation_prompt = false,
                      .continue_final_message = true,
                      .template_arguments = R"({"enable_thinking":false})",
                      .tools = {{.name = "f",
                                 .description = "d",
                                 .parameters = R"({"b":1,"a":2})",
                                 .strict = true,
                                 .param = "tools[0]"},
                                {.name = "g"}},
                      .tool_choice = {api::ToolChoice::Kind::kNamed, "f"},
                      .parallel_tool_calls = false};
  auto& messages = std::get<api::ChatPrompt>(request.prompt).messages;
  messages[2].tool_calls = {{"call_1", "f", "{}"}};
  messages[2].reasoning = "hm";
  messages[1].tool_call_id = "call_0";
  api::SamplingParams& sampling = request.sampling;
  sampling.temperature = 0.7;
  sampling.top_p = 0.9;
  sampling.top_k = 40;
  sampling.min_p = 0.05;
  sampling.repetition_penalty = 1.1;
  sampling.presence_penalty = -0.5;
  sampling.frequency_penalty = 0.25;
  sampling.logit_bias = {{5, -1.5f}, {9, 100.0f}};
  sampling.allowed_token_ids = {1, 2, 3};
  sampling.banned_token_ids = {4};
  sampling.seed = INT64_MAX;
  sampling.max_tokens = 12;
  sampling.min_tokens = 2;
  sampling.stop = {std::string("a\0b", 3), "\n\n"};
  sampling.stop_token_ids = {7};
  sampling.ignore_eos = true;
  sampling.include_stop_in_output = true;
  sampling.skip_special_tokens = false;
  request.priority = api::Priority::kBatch;
  request.caller = std::make_shared<const api::Caller>(
      api::Caller{.tenant = "t",
                  .credential = "key:a1",
                  .models = {"m", "n"},
                  .limits = {.requests_per_minute = 60, .daily_tokens = 1000}});
  request.constraint = api::Constraint{.kind = api::Constraint::Kind::kChoice,
                                       .text = "t",
                                       .choices = {"a", "b"},
                                       .param = "guided_choice"};
  request.max_reasoning_tokens = 7;
  request.sampling.logprobs = 3;
  request.cache_salt = "salt";
  request.use_prefix_cache = false;
  request.truncate_prompt_tokens = 100;
  return request;
}

// A structural tag was dropped, so that a request that ran again after a crash was unconstrained. A
// kind of a later version is kept too, and refused by the gateway.
TEST(RequestJsonTest, KeepsConstraintsOfEachKind) {
  api::GenerateRequest in = Full();
  for (const int kind : {0, static_cast<int>(api::Constraint::kLastKind), 100}) {
    in.constraint->kind = static_cast<api::Constraint::Kind>(kind);
    const Result<api::GenerateRequest> out = DecodeRequest(EncodeRequest(in));
    ASSERT_TRUE(out.ok() && out->constraint.has_value()) << kind;
    EXPECT_EQ(out->constraint->kind, in.constraint->kind);
  }
}

TEST(RequestJsonTest, ARequestIsReadAsItWasWritten) {
  const api::GenerateRequest in = Full();
  const Result<api::GenerateRequest> out = DecodeRequest(EncodeRequest(in));
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(EncodeRequest(*out), EncodeRequest(in));
  ASSERT_NE(out->caller, nullptr);
  EXPECT_EQ(*out->caller, *in.caller);
  EXPECT_EQ(out->sampling.seed, INT64_MAX);
  EXPECT_EQ(out->sampling.temperature, 0.7);
  EXPECT_EQ(out->sampling.stop, in.sampling.stop);
  EXPECT_EQ(out->sampling.logit_bias, in.sampling.logit_bias);
  EXPECT_EQ(out->priority, api::Priority::kBatch);
  EXPECT_FALSE(out->use_prefix_cache);
  ASSERT_TRUE(out->constraint.has_value());
  EXPECT_EQ(out->constraint->kind, api::Constraint::Kind::kChoice);
  EXPECT_EQ(out->constraint->text, "t");
  EXPECT_EQ(out->constraint->choices, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(out->constraint->param, "guided_choice");
  EXPECT_EQ(out->max_reasoning_tokens, 7);
  EXPECT_FALSE(out->sampling.skip_special_tokens);
  EXPECT_EQ(out->sampling.logprobs, 3);
  EXPECT_EQ(out->truncate_prompt_tokens, 100);
  const auto& chat = std::get<api::ChatPrompt>(out->prompt);
  ASSERT_EQ(chat.messages.size(), 3u);
  EXPECT_EQ(chat.messages[1].content, "a \"b\"\n\xF0\x9F\x8E\xB5");
  EXPECT_EQ(chat.messages[1].name, "anna");
  EXPECT_EQ(chat.messages[2].role, api::Role::kAssistant);
  EXPECT_EQ(chat.messages[2].tool_calls, std::vector<api::ToolCall>({{"call_1", "f", "{}"}}));
  EXPECT_EQ(chat.messages[2].reasoning, "hm");
  EXPECT_EQ(chat.messages[1].tool_call_id, "call_0");
  EXPECT_EQ(chat.tools, std::get<api::ChatPrompt>(in.prompt).tools);
  EXPECT_EQ(chat.tool_choice, std::get<api::ChatPrompt>(in.prompt).tool_choice);
  EXPECT_FALSE(chat.parallel_tool_calls);
  EXPECT_EQ(chat.template_arguments, R"({"enable_thinking":false})");
  EXPECT_TRUE(chat.continue_final_message);
  EXPECT_FALSE(chat.add_generation_prompt);
}

TEST(RequestJsonTest, TextsAndTokensArePromptsToo) {
  api::GenerateRequest request;
  request.prompt = api::TextPrompt{.text = "once", .add_special = false, .parse_special = false};
  Result<api::GenerateRequest> text = DecodeRequest(EncodeRequest(request));
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(std::get<api::TextPrompt>(text->prompt).text, "once");
  EXPECT_FALSE(std::get<api::TextPrompt>(text->prompt).add_special);
  EXPECT_FALSE(std::get<api::TextPrompt>(text->prompt).suffix.has_value());
  request.prompt = api::TextPrompt{.text = "a", .suffix = "", .files = {{"x.py", "one"}, {"", ""}}};
  text = DecodeRequest(EncodeRequest(request));
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(std::get<api::TextPrompt>(text->prompt).suffix, "");
  EXPECT_EQ(std::get<api::TextPrompt>(text->prompt).files,
            std::get<api::TextPrompt>(request.prompt).files);
  request.prompt = api::TokenPrompt{{3, 1, 2}};
  Result<api::GenerateRequest> tokens = DecodeRequest(EncodeRequest(request));
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(std::get<api::TokenPrompt>(tokens->prompt).tokens, (std::vector<TokenId>{3, 1, 2}));
  EXPECT_FALSE(tokens->sampling.seed.has_value());
  EXPECT_FALSE(tokens->constraint.has_value());
  EXPECT_FALSE(tokens->max_reasoning_tokens.has_value());
  EXPECT_FALSE(tokens->sampling.max_tokens.has_value());
  EXPECT_EQ(tokens->sampling.logprobs, -1);
}

TEST(RequestJsonTest, WhatIsNoRequestIsAFaultOfTheStore) {
  for (const char* text : {"", "[]", "{}", "{\"model\":3}", "{\"messages\""})
    EXPECT_EQ(DecodeRequest(text).status().reason(), "record_corrupt") << text;
}

}  // namespace
}  // namespace tutti::responses
