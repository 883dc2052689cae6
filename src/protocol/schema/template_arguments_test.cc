#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>

#include "protocol/openai/request.h"
#include "protocol/openai/tokenizer_routes.h"
#include "protocol/responses/request.h"
#include "protocol/schema/chat_fields.h"

namespace tutti::protocol {
namespace {

const std::string kMessages = R"("model":"m","messages":[{"role":"user","content":"x"}])";

std::string ArgumentsOf(const Result<GenerationCall>& call) {
  EXPECT_TRUE(call.ok()) << call.status();
  return call.ok() ? std::get<api::ChatPrompt>(call->requests[0].prompt).template_arguments : "";
}

Result<GenerationCall> ChatOf(const std::string& fields) {
  return ParseGeneration(Dialect::kChat, boost::json::parse("{" + kMessages + "," + fields + "}"),
                         {});
}

TEST(TemplateArgumentsTest, AreTheSameTextInAnyOrder) {
  const std::string sorted = R"({"a":[1,{"b":null}],"enable_thinking":false})";
  EXPECT_EQ(
      ArgumentsOf(ChatOf(R"("chat_template_kwargs":{"enable_thinking":false,"a":[1,{"b":null}]})")),
      sorted);
  EXPECT_EQ(
      ArgumentsOf(ChatOf(R"("chat_template_kwargs":{"a":[1,{"b":null}],"enable_thinking":false})")),
      sorted);
}

TEST(TemplateArgumentsTest, NothingIsAskedByAnEmptyObject) {
  EXPECT_EQ(ArgumentsOf(ChatOf(R"("chat_template_kwargs":{})")), "");
  EXPECT_EQ(ArgumentsOf(ChatOf(R"("chat_template_kwargs":null)")), "");
}

TEST(TemplateArgumentsTest, ReasoningEffortIsAnOptionOfTheTemplate) {
  EXPECT_EQ(ArgumentsOf(ChatOf(R"("reasoning_effort":"low")")), R"({"reasoning_effort":"low"})");
  EXPECT_EQ(ArgumentsOf(ChatOf(R"("reasoning_effort":"none")")), R"({"enable_thinking":false})");
  EXPECT_EQ(ArgumentsOf(ChatOf(R"("reasoning_effort":"none","enable_thinking":true)")),
            R"({"enable_thinking":true})");
  // The value among the template options takes precedence.
  EXPECT_EQ(ArgumentsOf(ChatOf(
                R"("reasoning_effort":"low","chat_template_kwargs":{"reasoning_effort":"high"})")),
            R"({"reasoning_effort":"high"})");
  const auto response = ParseResponses(
      boost::json::parse(R"({"model":"m","input":"x","reasoning":{"effort":"high"}})"), {});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(std::get<api::ChatPrompt>(response->request.prompt).template_arguments,
            R"({"reasoning_effort":"high"})");
  const auto none = ParseResponses(
      boost::json::parse(R"({"model":"m","input":"x","reasoning":{"effort":"none"}})"), {});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(std::get<api::ChatPrompt>(none->request.prompt).template_arguments,
            R"({"enable_thinking":false})");
}

TEST(TemplateArgumentsTest, ThinkingIsSwitchedByAFieldToo) {
  EXPECT_EQ(ArgumentsOf(ChatOf(R"("enable_thinking":false)")), R"({"enable_thinking":false})");
  EXPECT_EQ(ArgumentsOf(ChatOf(
                R"("enable_thinking":false,"chat_template_kwargs":{"enable_thinking":true})")),
            R"({"enable_thinking":true})");
}

TEST(TemplateArgumentsTest, AreReadWhereverMessagesAre) {
  const std::string given = R"("chat_template_kwargs":{"k":1})", kept = R"({"k":1})";
  EXPECT_EQ(ArgumentsOf(ParseGeneration(
                Dialect::kGenerate, boost::json::parse("{" + kMessages + "," + given + "}"), {})),
            kept);
  const Json body = boost::json::parse("{" + kMessages + "," + given + "}");
  const auto applied = ParseApplyTemplate(body, {});
  ASSERT_TRUE(applied.ok()) << applied.status();
  EXPECT_EQ(std::get<api::ChatPrompt>(applied->request.prompt).template_arguments, kept);
  const auto tokenized = ParseTokenize(body, {});
  ASSERT_TRUE(tokenized.ok()) << tokenized.status();
  EXPECT_EQ(std::get<api::ChatPrompt>(tokenized->requests[0].prompt).template_arguments, kept);
  const auto response =
      ParseResponses(boost::json::parse(R"({"model":"m","input":"x",)" + given + "}"), {});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(std::get<api::ChatPrompt>(response->request.prompt).template_arguments, kept);
}

TEST(TemplateArgumentsTest, BesideAPromptTheyAreRefused) {
  const Json body =
      boost::json::parse(R"({"model":"m","prompt":"x","chat_template_kwargs":{"k":1}})");
  for (const Status& status :
       {ParseGeneration(Dialect::kGenerate, body, {}).status(),
        ParseGeneration(Dialect::kText, body, {}).status(), ParseTokenize(body, {}).status()}) {
    EXPECT_EQ(status.reason(), "unsupported_parameter");
    EXPECT_EQ(status.param(), "chat_template_kwargs");
  }
}

TEST(TemplateArgumentsTest, SizeAndDepthAreBounded) {
  std::string deep = "1";
  for (size_t i = 1; i < kMaxTemplateArgumentDepth; ++i) deep = "[" + deep + "]";
  EXPECT_TRUE(ChatOf(R"("chat_template_kwargs":{"k":)" + deep + "}").ok());
  const Status nested = ChatOf(R"("chat_template_kwargs":{"k":[)" + deep + "]}").status();
  EXPECT_EQ(nested.reason(), "invalid_value");
  EXPECT_EQ(nested.param(), "chat_template_kwargs");
  const std::string big(kMaxTemplateArgumentBytes, 'x');
  EXPECT_EQ(ChatOf(R"("chat_template_kwargs":{"k":")" + big + "\"}").status().reason(),
            "invalid_value");
  EXPECT_EQ(ChatOf(R"("chat_template_kwargs":[1])").status().param(), "chat_template_kwargs");
}

TEST(TemplateArgumentsTest, TextOfThemIsReadLikeAnObject) {
  EXPECT_EQ(ParseTemplateArguments(R"( {"b":1, "a":2} )", "p").value(), R"({"a":2,"b":1})");
  EXPECT_EQ(ParseTemplateArguments("", "p").value(), "");
  EXPECT_EQ(ParseTemplateArguments("{}", "p").value(), "");
  EXPECT_EQ(ParseTemplateArguments("[1]", "p").status().param(), "p");
  EXPECT_EQ(ParseTemplateArguments("{", "p").status().reason(), "invalid_value");
}

}  // namespace
}  // namespace tutti::protocol
