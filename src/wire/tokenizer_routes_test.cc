#include "wire/tokenizer_routes.h"

#include <gtest/gtest.h>

#include "wire/models.h"

namespace tutti::wire {
namespace {

Result<TokenizeCall> Parse(const std::string& text) {
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
  const auto prompt = Parse(R"({"prompt":"a","return_token_strs":true})");
  EXPECT_EQ(prompt->dialect, TokenizeDialect::kVllm);
  EXPECT_TRUE(std::get<api::TextPrompt>(prompt->requests[0].prompt).add_special);
  EXPECT_TRUE(std::get<api::TextPrompt>(prompt->requests[0].prompt).parse_special);
  EXPECT_TRUE(prompt->pieces);
  const auto chat = Parse(
      R"({"model":"m","messages":[{"role":"user","content":"a"}],"add_generation_prompt":false})");
  EXPECT_EQ(chat->dialect, TokenizeDialect::kVllm);
  EXPECT_EQ(chat->requests[0].model, "m");
  EXPECT_FALSE(std::get<api::ChatPrompt>(chat->requests[0].prompt).add_generation_prompt);
  const auto content = Parse(R"({"content":"a","with_pieces":true})");
  EXPECT_EQ(content->dialect, TokenizeDialect::kLlama);
  EXPECT_FALSE(std::get<api::TextPrompt>(content->requests[0].prompt).add_special);
  const auto inputs = Parse(R"({"inputs":["a","b"],"add_special_tokens":false})");
  EXPECT_EQ(inputs->dialect, TokenizeDialect::kTei);
  EXPECT_EQ(inputs->requests.size(), 2u);
  EXPECT_EQ(Parse(R"({"inputs":"a"})")->requests.size(), 1u);
  EXPECT_EQ(Parse(R"({"prompt":""})")->requests.size(), 1u) << "an empty text has a count too";
}

TEST(Tokenize, AmbiguousAndWrongFormsAreRefused) {
  EXPECT_EQ(Parse("{}").status().reason(), "missing_required_parameter");
  EXPECT_EQ(Parse(R"({"prompt":"a","content":"b"})").status().reason(), "invalid_value");
  EXPECT_EQ(Parse(R"({"prompt":["a"]})").status().param(), "prompt");
  EXPECT_EQ(Parse(R"({"inputs":[]})").status().param(), "inputs");
  EXPECT_EQ(Parse(R"({"inputs":["a",1]})").status().param(), "inputs[1]");
  EXPECT_EQ(Parse(R"({"messages":[]})").status().param(), "messages");
  EXPECT_EQ(Parse(R"({"messages":[{"role":"user","content":"a"}],"add_special_tokens":true})")
                .status()
                .reason(),
            "unsupported_parameter");
}

TEST(Tokenize, AnswersInTheDialectAsked) {
  const std::vector<api::TokenizeResult> results = {Sample()};
  EXPECT_EQ(TokenizeBody(*Parse(R"({"prompt":"a"})"), results),
            R"({"count":3,"max_model_len":128,"tokens":[1,20,30],"token_strs":null})");
  EXPECT_EQ(
      TokenizeBody(*Parse(R"({"prompt":"a","return_token_strs":true})"), results),
      R"({"count":3,"max_model_len":128,"tokens":[1,20,30],"token_strs":["<s>","hé","bytes:\\xe2\\x82"]})");
  EXPECT_EQ(TokenizeBody(*Parse(R"({"content":"a"})"), results), R"({"tokens":[1,20,30]})");
  EXPECT_EQ(
      TokenizeBody(*Parse(R"({"content":"a","with_pieces":true})"), results),
      R"({"tokens":[{"id":1,"piece":"<s>"},{"id":20,"piece":"hé"},{"id":30,"piece":[226,130]}]})");
  EXPECT_EQ(
      TokenizeBody(*Parse(R"({"inputs":"a"})"), results),
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

TEST(Models, AreListedWithTheirAliases) {
  api::ModelInfo model;
  model.id = "big";
  model.aliases = {"alias"};
  model.created_unix_s = 5;
  model.max_model_len = 512;
  model.digest = "d";
  const std::vector<api::ModelInfo> models = {model};
  EXPECT_EQ(
      ModelListBody(models),
      R"({"object":"list","data":[{"id":"big","object":"model","created":5,"owned_by":"tutti","root":"big","parent":null,"max_model_len":512,)"
      R"("permission":[],"tasks":["generate"],"digest":"d","state":"ready"},{"id":"alias","object":"model","created":5,"owned_by":"tutti","root":"big",)"
      R"("parent":null,"max_model_len":512,"permission":[],"tasks":["generate"],"digest":"d","state":"ready"}]})");
  EXPECT_EQ(FindModel(models, "alias")->id, "big");
  EXPECT_EQ(FindModel(models, "other"), nullptr);
}

}  // namespace
}  // namespace tutti::wire
