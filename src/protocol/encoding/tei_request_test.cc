// The dialect of Text Embeddings Inference, inbound, and its errors. Each field at its limits:
// schema_test.cc.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>
#include <vector>

#include "protocol/encoding/request.h"
#include "protocol/error.h"

namespace tutti::protocol {
namespace {

Result<EncodingCall> Try(EncodingKind kind, const std::string& body) {
  return ParseTei(kind, boost::json::parse(body), {});
}
EncodingCall Good(EncodingKind kind, const std::string& body) {
  Result<EncodingCall> call = Try(kind, body);
  EXPECT_TRUE(call.ok()) << call.status() << " " << body;
  return *std::move(call);
}
void ExpectBad(EncodingKind kind, const std::string& body, const char* code, const char* param) {
  const Status status = Try(kind, body).status();
  EXPECT_EQ(status.reason(), code) << body.substr(0, 200);
  EXPECT_EQ(status.param(), param) << status;
}
// Each input in words: a text, ids joined, a pair.
std::vector<std::string> Inputs(const EncodingCall& call) {
  std::vector<std::string> out;
  for (const api::EncodeInput& input : call.request.inputs) {
    if (const auto* text = std::get_if<std::string>(&input)) out.push_back(*text);
    if (const auto* pair = std::get_if<api::TextPair>(&input))
      out.push_back(pair->first + "|" + pair->second);
    if (const auto* ids = std::get_if<std::vector<TokenId>>(&input)) {
      std::string text = "#";
      for (const TokenId id : *ids) text += std::to_string(id);
      out.push_back(text);
    }
  }
  return out;
}
using Texts = std::vector<std::string>;

TEST(TeiEmbed, InputsAreATextIdsOrAListThatMayMixThem) {
  constexpr auto kEmbed = EncodingKind::kTeiEmbed;
  EXPECT_EQ(Inputs(Good(kEmbed, R"({"inputs":"a"})")), Texts{"a"});
  EXPECT_EQ(Inputs(Good(kEmbed, R"({"inputs":["a","b"]})")), (Texts{"a", "b"}));
  EXPECT_EQ(Inputs(Good(kEmbed, R"({"inputs":[1,2]})")), Texts{"#12"});
  EXPECT_EQ(Inputs(Good(kEmbed, R"({"inputs":["a",[3],"c"]})")), (Texts{"a", "#3", "c"}));
  ExpectBad(kEmbed, R"({"inputs":[]})", "empty_prompt", "inputs");
  ExpectBad(kEmbed, R"({"inputs":""})", "empty_prompt", "inputs");
  ExpectBad(kEmbed, R"({"inputs":["a",""]})", "empty_prompt", "inputs[1]");
  ExpectBad(kEmbed, R"({"inputs":["a",{}]})", "invalid_value", "inputs[1]");
  ExpectBad(kEmbed, R"({"inputs":null})", "missing_required_parameter", "inputs");
}

TEST(TeiEmbed, DefaultsAreThoseOfTheServerItSpeaksFor) {
  EncodingCall call = Good(EncodingKind::kTeiEmbed, R"({"inputs":"a"})");
  EXPECT_EQ(call.request.normalize, true);
  EXPECT_EQ(call.request.truncation, api::Truncation::kRefuse);
  EXPECT_EQ(call.request.output, api::EncodeOutput::kPooled);
  call = Good(EncodingKind::kTeiEmbed,
              R"({"inputs":"a","normalize":false,"dimensions":2,"prompt_name":"p",)"
              R"("truncate":true,"truncation_direction":"Left"})");
  EXPECT_EQ(call.request.normalize, false);
  EXPECT_EQ(call.request.dimensions, 2);
  EXPECT_EQ(call.request.prompt_name, "p");
  EXPECT_EQ(call.request.truncation, api::Truncation::kLeft);
  EXPECT_EQ(Good(EncodingKind::kTeiEmbed, R"({"inputs":"a","truncate":true})").request.truncation,
            api::Truncation::kRight);
  EXPECT_EQ(Good(EncodingKind::kTeiEmbed, R"({"inputs":"a","truncation_direction":"left"})")
                .request.truncation,
            api::Truncation::kRefuse);
  EXPECT_EQ(Good(EncodingKind::kTeiEmbedAll, R"({"inputs":"a"})").request.output,
            api::EncodeOutput::kTokens);
}

TEST(TeiPredict, ATextAPairOrABatchOfThem) {
  constexpr auto kPredict = EncodingKind::kTeiPredict;
  const auto single = [](const std::string& inputs) {
    const EncodingCall call = Good(kPredict, "{\"inputs\":" + inputs + "}");
    EXPECT_FALSE(call.listed) << inputs;
    return Inputs(call);
  };
  EXPECT_EQ(single("\"a\""), Texts{"a"});
  EXPECT_EQ(single(R"(["a"])"), Texts{"a"});
  EXPECT_EQ(single(R"(["a","b"])"), Texts{"a|b"});
  const EncodingCall batch = Good(kPredict, R"({"inputs":[["a"],["b","c"]],"raw_scores":true})");
  EXPECT_TRUE(batch.listed);
  EXPECT_EQ(Inputs(batch), (Texts{"a", "b|c"}));
  EXPECT_TRUE(batch.request.raw_scores);
  EXPECT_EQ(batch.request.output, api::EncodeOutput::kScores);
  ExpectBad(kPredict, R"({"inputs":["a","b","c"]})", "invalid_value", "inputs");
  ExpectBad(kPredict, R"({"inputs":[["a"],["b","c","d"]]})", "invalid_value", "inputs[1]");
  ExpectBad(kPredict, R"({"inputs":[["a"],"b"]})", "invalid_value", "inputs[1]");
  ExpectBad(kPredict, R"({"inputs":["a",["b"]]})", "invalid_value", "inputs[1]");
  ExpectBad(kPredict, R"({"inputs":[["a"],[]]})", "empty_prompt", "inputs[1]");
  ExpectBad(kPredict, R"({"inputs":[]})", "empty_prompt", "inputs");
  ExpectBad(kPredict, R"({"inputs":[1]})", "invalid_value", "inputs[0]");
  ExpectBad(kPredict, R"({"inputs":[["a",""]]})", "empty_prompt", "inputs[0][1]");
}

TEST(TeiRerank, PairsOfTheQueryAndEachText) {
  constexpr auto kRerank = EncodingKind::kTeiRerank;
  const EncodingCall call =
      Good(kRerank, R"({"query":"q","texts":["a","b"],"return_text":true,"truncate":true})");
  EXPECT_EQ(Inputs(call), (Texts{"q|a", "q|b"}));
  EXPECT_EQ(call.texts, (Texts{"a", "b"}));
  EXPECT_EQ(call.characters, 4u);
  EXPECT_EQ(InputParam(call, 1), "texts[1]");
  EXPECT_TRUE(Good(kRerank, R"({"query":"q","texts":["a"]})").texts.empty());
  ExpectBad(kRerank, R"({"query":"q","texts":[]})", "empty_prompt", "texts");
  ExpectBad(kRerank, R"({"query":"q","texts":["a",""]})", "empty_prompt", "texts[1]");
  ExpectBad(kRerank, R"({"query":"q","texts":[{"text":"a"}]})", "invalid_value", "texts[0]");
}

TEST(TeiSimilarity, TheSourceIsTheFirstInput) {
  constexpr auto kSimilarity = EncodingKind::kTeiSimilarity;
  const EncodingCall call =
      Good(kSimilarity, R"({"inputs":{"source_sentence":"q","sentences":["a","b"]},)"
                        R"("parameters":{"truncate":true,"prompt_name":"p"}})");
  EXPECT_EQ(Inputs(call), (Texts{"q", "a", "b"}));
  EXPECT_EQ(call.request.truncation, api::Truncation::kRight);
  EXPECT_EQ(call.request.prompt_name, "p");
  EXPECT_EQ(InputParam(call, 0), "inputs.source_sentence");
  EXPECT_EQ(InputParam(call, 2), "inputs.sentences[1]");
  ExpectBad(kSimilarity, R"({"inputs":{"source_sentence":"q","sentences":[]}})", "empty_prompt",
            "inputs.sentences");
  ExpectBad(kSimilarity, R"({"inputs":{"sentences":["a"]}})", "missing_required_parameter",
            "inputs.source_sentence");
  ExpectBad(kSimilarity, R"({"inputs":"a"})", "invalid_value", "inputs");
  ExpectBad(kSimilarity, R"({"inputs":{"source_sentence":"q","sentences":["a"]},"parameters":7})",
            "invalid_value", "parameters");
  JsonObject inputs{{"source_sentence", "q"}, {"sentences", JsonArray(2047, "a")}};
  EXPECT_TRUE(ParseTei(kSimilarity, JsonObject{{"inputs", inputs}}, {}).ok());
  inputs["sentences"] = JsonArray(2048, "a");
  EXPECT_EQ(ParseTei(kSimilarity, JsonObject{{"inputs", inputs}}, {}).status().param(),
            "inputs.sentences")
      << "the source is one of 2,048";
}

TEST(TeiRequest, ARefusalOfTheInferenceApiNamesTheClientsField) {
  const auto blamed = [](const EncodingCall& call, const char* param) {
    return BlameInput(call, InvalidArgument("x", "y").WithParam(param)).param();
  };
  const EncodingCall batch = Good(EncodingKind::kTeiEmbed, R"({"inputs":["a","b"]})");
  EXPECT_EQ(blamed(batch, "input[1]"), "inputs[1]");
  EXPECT_EQ(blamed(batch, "input"), "inputs");
  EXPECT_EQ(blamed(batch, "prompt_name"), "prompt_name");
  EXPECT_EQ(blamed(batch, "inputs_of_another_name"), "inputs_of_another_name");
  EXPECT_EQ(blamed(Good(EncodingKind::kTeiEmbed, R"({"inputs":"a"})"), "input[0]"), "inputs");
}

// Regression: the request was answered with vectors and status 200.
TEST(TeiRequest, RefusesTextGenerationAtTheRoot) {
  const auto kind = [](const char* body) { return KindOfRoot(boost::json::parse(body), true); };
  for (const auto& [body, param] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"({"inputs":"a","parameters":{"max_new_tokens":20}})", "parameters.max_new_tokens"},
           {R"({"inputs":"a","parameters":{"do_sample":null}})", "parameters.do_sample"},
           {R"({"inputs":"a","stream":false})", "stream"},
           {R"({"inputs":"a","stream":true,"parameters":{}})", "stream"}}) {
    const Status status = kind(body).status();
    EXPECT_EQ(status.reason(), "unsupported_parameter") << body;
    EXPECT_EQ(status.param(), param);
    EXPECT_NE(status.message().find("/v1/completions"), std::string::npos) << status;
  }
  for (const char* body :
       {R"({"inputs":["a"],"parameters":{}})", R"({"inputs":"a","parameters":{"truncate":true}})",
        R"({"inputs":"a"})"}) {
    ASSERT_TRUE(kind(body).ok()) << body;
    EXPECT_EQ(*kind(body), EncodingKind::kTeiEmbed) << body;
  }
}

TEST(TeiError, WordsAndStatusesAreTeis) {
  struct Row {
    const char* code;
    const char* param;
    int http;
    const char* type;
  };
  ErrorOptions options;
  options.form = ErrorForm::kTei;
  for (const Row& want :
       std::initializer_list<Row>{{"invalid_value", "inputs[1]", 422, "Validation"},
                                  {"invalid_value", "model", 424, "Backend"},
                                  {"context_length_exceeded", "inputs", 422, "Validation"},
                                  {"missing_required_parameter", "inputs", 422, "Validation"},
                                  {"unknown_parameter", "x", 422, "Validation"},
                                  {"token_out_of_range", "inputs", 422, "Tokenizer"},
                                  {"empty_prompt", "inputs", 400, "Empty"},
                                  {"unsupported_parameter", "stream", 400, "Validation"},
                                  {"invalid_json", "", 400, "Validation"},
                                  {"invalid_utf8", "", 400, "Validation"},
                                  {"model_not_found", "model", 404, "Validation"},
                                  {"request_too_large", "", 413, "Validation"},
                                  {"unsupported_media_type", "", 415, "Validation"},
                                  {"queue_full", "", 429, "Overloaded"},
                                  {"overloaded", "", 429, "Overloaded"},
                                  {"tenant_rate", "", 429, "Overloaded"},
                                  {"model_loading", "", 503, "Unhealthy"},
                                  {"draining", "", 503, "Unhealthy"},
                                  {"engine_stalled", "", 503, "Unhealthy"},
                                  {"deadline_exceeded", "", 504, "Overloaded"},
                                  {"internal_error", "", 424, "Backend"},
                                  {"no such code", "", 424, "Backend"}}) {
    const Status status = InvalidArgument(want.code, "why").WithParam(want.param);
    const ErrorView view = ViewError(status, options);
    EXPECT_EQ(view.http, want.http) << want.code;
    EXPECT_EQ(view.type, want.type) << want.code;
    const JsonDocument body = *ParseJson(ErrorBody(view));
    EXPECT_EQ(body.root().at("error_type").as_string(), want.type);
    EXPECT_EQ(body.root().at("error").as_string(), view.ours ? view.message : "why");
    EXPECT_EQ(body.root().at("code").as_string(), view.code);
    EXPECT_EQ(view.retry_after.has_value(), view.http == 429 || view.http >= 503) << want.code;
  }
  for (const ErrorRow& row : ErrorTable()) {
    std::string code(row.code);
    if (code.back() == '*') code.back() = 'x';
    const ErrorView view = ViewError(Status(row.canonical, code, "why"), options);
    EXPECT_GE(view.http, 400) << code;
    EXPECT_TRUE(ParseJson(ErrorBody(view)).ok()) << code;
  }
}

}  // namespace
}  // namespace tutti::protocol
