#include "protocol/openai/tokenizer_routes.h"

#include <gtest/gtest.h>

namespace tutti::protocol {
namespace {

Result<TokenizeCall> ParseCall(const std::string& text) {
  ASSIGN_OR_RETURN(const JsonDocument document, ParseJson(text));
  return ParseTokenize(document.root(), {});
}

api::TokenizeResult Sample() {
  api::TokenizeResult result;
  result.tokens = {1, 20, 30};
  result.pieces = {"<s>", "h\xc3\xa9", "\xe2\x82"};
  result.special = {true, false, false};
  result.text = "h\xc3\xa9";
  result.max_model_len = 128;
  return result;
}

TEST(Tokenize, TheKeyPresentPicksTheDialect) {
  const auto prompt = ParseCall(R"({"prompt":"a","return_token_strs":true})");
  EXPECT_EQ(prompt->dialect, TokenizeDialect::kVllm);
  EXPECT_TRUE(std::get<api::TextPrompt>(prompt->requests[0].prompt).add_special);
  EXPECT_TRUE(std::get<api::TextPrompt>(prompt->requests[0].prompt).parse_special);
  EXPECT_TRUE(prompt->pieces);
  const auto chat = ParseCall(
      R"({"model":"m","messages":[{"role":"user","content":"a"}],"add_generation_prompt":false})");
  EXPECT_EQ(chat->dialect, TokenizeDialect::kVllm);
  EXPECT_EQ(chat->requests[0].model, "m");
  EXPECT_FALSE(std::get<api::ChatPrompt>(chat->requests[0].prompt).add_generation_prompt);
  const auto content = ParseCall(R"({"content":"a","with_pieces":true})");
  EXPECT_EQ(content->dialect, TokenizeDialect::kLlama);
  EXPECT_FALSE(std::get<api::TextPrompt>(content->requests[0].prompt).add_special);
  const auto inputs = ParseCall(R"({"inputs":["a","b"],"add_special_tokens":false})");
  EXPECT_EQ(inputs->dialect, TokenizeDialect::kTei);
  EXPECT_EQ(inputs->requests.size(), 2u);
  EXPECT_EQ(ParseCall(R"({"inputs":"a"})")->requests.size(), 1u);
  EXPECT_EQ(ParseCall(R"({"prompt":""})")->requests.size(), 1u) << "an empty text has a count too";
}

TEST(Tokenize, AmbiguousAndWrongFormsAreRefused) {
  EXPECT_EQ(ParseCall("{}").status().reason(), "missing_required_parameter");
  EXPECT_EQ(ParseCall(R"({"prompt":"a","content":"b"})").status().reason(), "invalid_value");
  EXPECT_EQ(ParseCall(R"({"prompt":["a"]})").status().param(), "prompt");
  EXPECT_EQ(ParseCall(R"({"inputs":[]})").status().param(), "inputs");
  EXPECT_EQ(ParseCall(R"({"inputs":["a",1]})").status().param(), "inputs[1]");
  EXPECT_EQ(ParseCall(R"({"messages":[]})").status().param(), "messages");
  EXPECT_EQ(ParseCall(R"({"messages":[{"role":"user","content":"a"}],"add_special_tokens":true})")
                .status()
                .reason(),
            "unsupported_parameter");
}

TEST(Tokenize, AnswersInTheDialectAsked) {
  const std::vector<api::TokenizeResult> results = {Sample()};
  EXPECT_EQ(TokenizeBody(*ParseCall(R"({"prompt":"a"})"), results),
            R"({"count":3,"max_model_len":128,"tokens":[1,20,30],"token_strs":null})");
  EXPECT_EQ(
      TokenizeBody(*ParseCall(R"({"prompt":"a","return_token_strs":true})"), results),
      R"({"count":3,"max_model_len":128,"tokens":[1,20,30],"token_strs":["<s>","hé","bytes:\\xe2\\x82"]})");
  EXPECT_EQ(TokenizeBody(*ParseCall(R"({"content":"a"})"), results), R"({"tokens":[1,20,30]})");
  EXPECT_EQ(
      TokenizeBody(*ParseCall(R"({"content":"a","with_pieces":true})"), results),
      R"({"tokens":[{"id":1,"piece":"<s>"},{"id":20,"piece":"hé"},{"id":30,"piece":[226,130]}]})");
  EXPECT_EQ(
      TokenizeBody(*ParseCall(R"({"inputs":"a"})"), results),
      R"([[{"id":1,"text":"<s>","special":true},{"id":20,"text":"hé","special":false},{"id":30,"text":"bytes:\\xe2\\x82","special":false}]])");
}

TEST(Detokenize, ReadsIdsAndAnswersUnderBothNames) {
  const JsonDocument body = ParseJson(R"({"tokens":[1,2]})").value();
  EXPECT_EQ(ParseDetokenize(body.root(), {})->tokens, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(DetokenizeBody("x\"y"), R"({"prompt":"x\"y","content":"x\"y"})");
  const JsonDocument bad = ParseJson(R"({"tokens":[1,-2]})").value();
  EXPECT_EQ(ParseDetokenize(bad.root(), {}).status().reason(), "token_out_of_range");
}

TEST(ApplyTemplate, ShowsThePromptAndItsCount) {
  EXPECT_EQ(ApplyTemplateBody(Sample()), R"({"prompt":"hé","count":3,"max_model_len":128})");
}

TEST(InputTokens, CountsThePromptOfAResponse) {
  const auto parse = [](const char* text) { return ParseInputTokens(ParseJson(text)->root(), {}); };
  const auto call = parse(
      R"({"model":"m","instructions":"Be brief.","input":[{"role":"user","content":"hi"}],"odd":1})");
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->request.model, "m");
  EXPECT_FALSE(call->request.pieces);
  const auto& messages = std::get<api::ChatPrompt>(call->request.prompt).messages;
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].content, "Be brief.");
  EXPECT_EQ(call->ignored, std::vector<std::string>{"odd"});
  EXPECT_EQ(InputTokensBody(Sample()), R"({"object":"response.input_tokens","input_tokens":3})");
  for (const char* dialog : {"conversation", "previous_response_id"}) {
    const Status status =
        parse((R"({"model":"m","input":"hi",")" + std::string(dialog) + R"(":"x"})").c_str())
            .status();
    EXPECT_EQ(status.reason(), "unsupported_parameter") << dialog;
    EXPECT_EQ(status.param(), dialog);
  }
}

TEST(Decode, OneListOfIdsOrSeveral) {
  const auto parse = [](const char* text) { return ParseDecode(ParseJson(text)->root(), {}); };
  const DecodeCall one = *parse(R"({"ids":[1,2]})");
  EXPECT_EQ(one.ids, (std::vector<std::vector<TokenId>>{{1, 2}}));
  EXPECT_TRUE(one.skip_special);
  EXPECT_FALSE(one.listed);
  const DecodeCall two = *parse(R"({"ids":[[1],[]],"skip_special_tokens":false,"model":"m"})");
  EXPECT_EQ(two.ids, (std::vector<std::vector<TokenId>>{{1}, {}}));
  EXPECT_FALSE(two.skip_special);
  EXPECT_TRUE(two.listed);
  EXPECT_EQ(two.model, "m");
  EXPECT_EQ(parse(R"({"ids":[]})").status().reason(), "empty_prompt");
  EXPECT_EQ(parse(R"({"ids":7})").status().param(), "ids");
  EXPECT_EQ(parse(R"({"ids":[[1],2]})").status().param(), "ids[1]");
  EXPECT_EQ(parse(R"({"ids":[1,[2]]})").status().param(), "ids[1]");
  EXPECT_EQ(parse(R"({"ids":[[1],[-2]]})").status().param(), "ids[1][0]");
  const JsonObject most{{"ids", JsonArray(2048, JsonArray{1})}};
  EXPECT_TRUE(ParseDecode(most, {}).ok());
  const JsonObject more{{"ids", JsonArray(2049, JsonArray{1})}};
  EXPECT_EQ(ParseDecode(more, {}).status().param(), "ids");
  EXPECT_EQ(DecodeBody(std::vector<std::string>{"a\"b", ""}), R"(["a\"b",""])");
}

}  // namespace
}  // namespace tutti::protocol
