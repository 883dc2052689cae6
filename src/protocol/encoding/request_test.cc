// /v1/embeddings, rerank and score, inbound. Each field at its limits: schema_test.cc.
#include "protocol/encoding/request.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>
#include <vector>

#include "api/validate.h"

namespace tutti::protocol {
namespace {

using ParseFunction = Result<EncodingCall> (*)(const Json&, const ParseOptions&);

Result<EncodingCall> Try(ParseFunction parse, const std::string& body) {
  return parse(boost::json::parse(body), {});
}
EncodingCall Good(ParseFunction parse, const std::string& body) {
  Result<EncodingCall> call = Try(parse, body);
  EXPECT_TRUE(call.ok()) << call.status() << " " << body;
  return *std::move(call);
}
void ExpectBad(ParseFunction parse, const std::string& body, const char* code, const char* param) {
  const Status status = Try(parse, body).status();
  EXPECT_EQ(status.reason(), code) << body.substr(0, 200);
  EXPECT_EQ(status.param(), param) << status;
}

std::string Embeddings(const std::string& input, const std::string& more = "") {
  return R"({"model":"m","input":)" + input + more + "}";
}
EncodingCall Embed(const std::string& input, const std::string& more = "") {
  return Good(ParseEmbeddings, Embeddings(input, more));
}
void ExpectBadInput(const std::string& input, const char* code, const char* param) {
  ExpectBad(ParseEmbeddings, Embeddings(input), code, param);
}

std::string TextOf(const EncodingCall& call, size_t i) {
  return std::get<std::string>(call.request.inputs.at(i));
}
std::vector<TokenId> IdsOf(const EncodingCall& call, size_t i) {
  return std::get<std::vector<TokenId>>(call.request.inputs.at(i));
}
using Texts = std::vector<std::string>;

Texts PairOf(const EncodingCall& call, size_t i) {
  const auto& pair = std::get<api::TextPair>(call.request.inputs.at(i));
  return {pair.first, pair.second};
}

std::string ListOf(size_t count, const std::string& element) {
  std::string list = "[";
  for (size_t i = 0; i < count; ++i) list += (i == 0 ? "" : ",") + element;
  return list + "]";
}

TEST(Embeddings, TheFourFormsOfInput) {
  EncodingCall call = Embed(R"("a text")");
  ASSERT_EQ(call.request.inputs.size(), 1u);
  EXPECT_EQ(TextOf(call, 0), "a text");
  EXPECT_FALSE(call.listed);
  EXPECT_EQ(call.characters, 6u);
  EXPECT_EQ(call.request.output, api::EncodeOutput::kPooled);

  call = Embed(R"(["one","zwölf"])");
  ASSERT_EQ(call.request.inputs.size(), 2u);
  EXPECT_EQ(TextOf(call, 1), "zw\xC3\xB6lf");
  EXPECT_EQ(call.characters, 8u);
  EXPECT_TRUE(call.listed);

  call = Embed("[1,2,3]");
  ASSERT_EQ(call.request.inputs.size(), 1u);
  EXPECT_EQ(IdsOf(call, 0), (std::vector<TokenId>{1, 2, 3}));

  call = Embed("[[1,2],[3]]");
  ASSERT_EQ(call.request.inputs.size(), 2u);
  EXPECT_EQ(IdsOf(call, 1), std::vector<TokenId>{3});
  EXPECT_EQ(call.characters, 3u);
}

TEST(Embeddings, WhatIsNoInputIsNamed) {
  ExpectBadInput("\"\"", "empty_prompt", "input");
  ExpectBadInput("[]", "empty_prompt", "input");
  ExpectBadInput("[[]]", "empty_prompt", "input[0]");
  ExpectBadInput(R"(["a","b","c",""])", "empty_prompt", "input[3]");
  ExpectBadInput("[[1],[]]", "empty_prompt", "input[1]");
  ExpectBadInput("7", "invalid_value", "input");
  ExpectBadInput("true", "invalid_value", "input");
  ExpectBadInput("{}", "invalid_value", "input");
  ExpectBadInput("null", "missing_required_parameter", "input");
  ExpectBadInput(R"(["a",null])", "invalid_value", "input[1]");
  ExpectBadInput(R"(["a",[1]])", "invalid_value", "input[1]");
  ExpectBadInput(R"([[1],"a"])", "invalid_value", "input[1]");
  ExpectBadInput(R"([{"text":"a"}])", "invalid_value", "input[0]");
  ExpectBadInput(R"([1,"a"])", "invalid_value", "input[1]");
  ExpectBadInput("[1,2.5]", "invalid_value", "input[1]");
  ExpectBadInput("[1,-1]", "token_out_of_range", "input[1]");
  ExpectBadInput("[[1],[2,2147483648]]", "token_out_of_range", "input[1][1]");
  ExpectBadInput("[[[1]]]", "invalid_value", "input[0][0]");
}

TEST(Embeddings, TwoThousandAndFortyEightInputsAndNoMore) {
  EXPECT_EQ(Embed(ListOf(2048, "\"a\"")).request.inputs.size(), 2048u);
  EXPECT_EQ(Embed(ListOf(2048, "[5]")).request.inputs.size(), 2048u);
  ExpectBadInput(ListOf(2049, "\"a\""), "invalid_value", "input");
  ExpectBadInput(ListOf(2049, "[5]"), "invalid_value", "input");
  EXPECT_EQ(Embed(ListOf(5000, "5")).request.inputs.size(), 1u) << "one text of ids";
}

TEST(Embeddings, WhatIsAskedOfTheVectors) {
  EncodingCall call = Embed("\"a\"");
  EXPECT_FALSE(call.base64);
  EXPECT_EQ(call.request.total_tokens, 300'000);
  EXPECT_FALSE(call.request.normalize.has_value());
  EXPECT_FALSE(call.request.dimensions.has_value());
  EXPECT_FALSE(call.request.prompt_name.has_value());
  call = Embed("\"a\"",
               R"(,"encoding_format":"base64","normalize":false,"dimensions":3,"prompt_name":"q")");
  EXPECT_TRUE(call.base64);
  EXPECT_EQ(call.request.normalize, false);
  EXPECT_EQ(call.request.dimensions, 3);
  EXPECT_EQ(call.request.prompt_name, "q");
}

TEST(Embeddings, TruncationAsVllmHasIt) {
  const auto truncated = [](const std::string& fields) { return Embed("\"a\"", fields).request; };
  api::EncodeRequest request = truncated("");
  EXPECT_EQ(request.truncation, api::Truncation::kRefuse);
  request = truncated(R"(,"truncate_prompt_tokens":-1)");
  EXPECT_EQ(request.truncation, api::Truncation::kRight);
  EXPECT_FALSE(request.truncate_tokens.has_value()) << "the model's own limit";
  // Voyage's.
  EXPECT_EQ(truncated(R"(,"truncation":true)").truncation, api::Truncation::kRight);
  EXPECT_EQ(truncated(R"(,"truncation":false)").truncation, api::Truncation::kRefuse);
  request = truncated(R"(,"truncation":true,"truncate_prompt_tokens":7,"truncation_side":"left")");
  EXPECT_EQ(request.truncation, api::Truncation::kLeft);
  EXPECT_EQ(request.truncate_tokens, 7);
  request = truncated(R"(,"truncation_side":"left")");
  EXPECT_EQ(request.truncation, api::Truncation::kRefuse) << "a side alone asks for nothing";
  ExpectBad(ParseEmbeddings, Embeddings("\"a\"", R"(,"truncate_prompt_tokens":0)"), "invalid_value",
            "truncate_prompt_tokens");
  ExpectBad(ParseEmbeddings, Embeddings("\"a\"", R"(,"truncate_prompt_tokens":-2)"),
            "invalid_value", "truncate_prompt_tokens");
}

TEST(Embeddings, WhenAndWhereAreThoseOfOtherRequests) {
  ParseOptions options;
  options.now = TimePoint() + std::chrono::seconds(100);
  const EncodingCall call =
      *ParseEmbeddings(boost::json::parse(Embeddings(
                           "\"a\"", R"(,"deadline_ms":1500,"priority":1,"request_id":"r-1")")),
                       options);
  EXPECT_EQ(call.request.deadline, options.now + std::chrono::milliseconds(1500));
  EXPECT_EQ(call.request.priority, api::Priority::kFlex);
  EXPECT_EQ(call.request.request_id, "r-1");
  EXPECT_EQ(call.request.model, "m");
  EXPECT_EQ(Embed("\"a\"", R"(,"user":"u","max_tokens":3)").ignored,
            std::vector<std::string>{"max_tokens"});
}

TEST(Rerank, DocumentsAreTextsOrObjectsWithText) {
  const EncodingCall call =
      Good(ParseRerank, R"({"query":"q","documents":["a",{"text":"b","title":"t"}],"top_n":1})");
  ASSERT_EQ(call.request.inputs.size(), 2u);
  EXPECT_EQ(PairOf(call, 0), (Texts{"q", "a"}));
  EXPECT_EQ(PairOf(call, 1), (Texts{"q", "b"}));
  EXPECT_EQ(call.texts, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(call.top_n, 1);
  EXPECT_EQ(call.request.output, api::EncodeOutput::kScores);
  EXPECT_FALSE(call.request.raw_scores);
  EXPECT_EQ(call.ignored, std::vector<std::string>{"documents[1].title"});
  EXPECT_EQ(call.request.model, "") << "the first that ranks";
  EXPECT_TRUE(Good(ParseRerank, R"({"query":"q","documents":["a"],"return_documents":false})")
                  .texts.empty());
  ExpectBad(ParseRerank, R"({"query":"q","documents":["a",""]})", "empty_prompt", "documents[1]");
  ExpectBad(ParseRerank, R"({"query":"q","documents":["a",{"text":""}]})", "invalid_value",
            "documents[1].text");
  ExpectBad(ParseRerank, R"({"query":"q","documents":["a",{"title":"x"}]})",
            "missing_required_parameter", "documents[1].text");
  ExpectBad(ParseRerank, R"({"query":"q","documents":["a",7]})", "invalid_value", "documents[1]");
  ExpectBad(ParseRerank, R"({"query":"q","documents":"a"})", "invalid_value", "documents");
  ExpectBad(ParseRerank, R"({"query":"","documents":["a"]})", "invalid_value", "query");
  EXPECT_EQ(Try(ParseRerank, R"({"query":"","documents":["a"]})").status().message(),
            "query must not be empty");
  ExpectBad(ParseRerank, R"({"query":"q","texts":["a"]})", "missing_required_parameter",
            "documents");
}

TEST(Rerank, ARequestNamesAPromptOfTheModel) {
  EXPECT_EQ(
      Good(ParseRerank, R"({"query":"q","documents":["a"],"prompt_name":"p"})").request.prompt_name,
      "p");
  EXPECT_EQ(
      Good(ParseScore, R"({"text_1":"q","text_2":"a","prompt_name":"p"})").request.prompt_name,
      "p");
}

TEST(Rerank, RawScoresInTwoWordsThatMustNotContradict) {
  const auto raw = [](const std::string& fields) {
    return Good(ParseRerank, R"({"query":"q","documents":["a"])" + fields + "}").request.raw_scores;
  };
  EXPECT_FALSE(raw(R"(,"raw_scores":false)"));
  EXPECT_TRUE(raw(R"(,"raw_scores":true)"));
  EXPECT_TRUE(raw(R"(,"use_activation":false)"));
  EXPECT_FALSE(raw(R"(,"use_activation":true)"));
  EXPECT_TRUE(raw(R"(,"use_activation":false,"raw_scores":true)"));
  ExpectBad(ParseRerank,
            R"({"query":"q","documents":["a"],"raw_scores":true,"use_activation":true})",
            "invalid_value", "use_activation");
}

// Regression: 2,048 copies of a query of megabytes took gigabytes.
TEST(Rerank, AQueryCountsOnceForEachOfItsDocuments) {
  const std::string query(api::kMaxPairBytes / 2048 - 1, 'q');
  JsonObject body{{"query", query}, {"documents", boost::json::parse(ListOf(2048, "\"d\""))}};
  EXPECT_TRUE(ParseRerank(body, {}).ok());
  body["query"] = query + "q";
  const Status status = ParseRerank(body, {}).status();
  EXPECT_EQ(status.reason(), "request_too_large");
  EXPECT_EQ(status.param(), "documents");
  body["documents"] = boost::json::parse(ListOf(2049, "\"d\""));
  EXPECT_EQ(ParseRerank(body, {}).status().reason(), "invalid_value");
}

TEST(Score, OneWithManyOrAsManyWithEachOther) {
  for (const auto& [first, second] :
       std::vector<std::pair<std::string, std::string>>{{"text_1", "text_2"},
                                                        {"queries", "documents"},
                                                        {"queries", "items"},
                                                        {"data_1", "data_2"}}) {
    const auto body = [&, first = first, second = second](const std::string& a,
                                                          const std::string& b) {
      return "{\"" + first + "\":" + a + ",\"" + second + "\":" + b + "}";
    };
    EncodingCall call = Good(ParseScore, body("\"q\"", "\"a\""));
    ASSERT_EQ(call.request.inputs.size(), 1u);
    EXPECT_EQ(PairOf(call, 0), (Texts{"q", "a"}));
    EXPECT_EQ(InputParam(call, 0), second) << "a text alone has no index";
    call = Good(ParseScore, body("\"q\"", R"(["a",{"text":"b"}])"));
    ASSERT_EQ(call.request.inputs.size(), 2u);
    EXPECT_EQ(PairOf(call, 1), (Texts{"q", "b"}));
    EXPECT_EQ(InputParam(call, 1), second + "[1]");
    call = Good(ParseScore, body(R"(["p","q"])", R"(["a","b"])"));
    ASSERT_EQ(call.request.inputs.size(), 2u);
    EXPECT_EQ(PairOf(call, 0), (Texts{"p", "a"}));
    EXPECT_EQ(PairOf(call, 1), (Texts{"q", "b"}));
    ExpectBad(ParseScore, body(R"(["p","q"])", R"(["a","b","c"])"), "invalid_value",
              second.c_str());
    ExpectBad(ParseScore, body(R"(["p","q"])", "\"a\""), "invalid_value", second.c_str());
    ExpectBad(ParseScore, body("[]", R"(["a"])"), "empty_prompt", first.c_str());
    ExpectBad(ParseScore, body("7", R"(["a"])"), "invalid_value", first.c_str());
    ExpectBad(ParseScore, body("\"\"", R"(["a"])"), "empty_prompt", first.c_str());
    ExpectBad(ParseScore, "{\"" + first + "\":\"q\"}", "missing_required_parameter",
              first == "queries" ? "documents" : second.c_str());
  }
  ExpectBad(ParseScore, "{}", "missing_required_parameter", "text_1");
  ExpectBad(ParseScore, R"({"text_2":"a"})", "missing_required_parameter", "text_1");
  ExpectBad(ParseScore, R"({"text_1":"a","text_2":"b","queries":"c"})", "invalid_value", "text_1");
  ExpectBad(ParseScore, R"({"queries":"a","items":"b","documents":"c"})", "invalid_value",
            "queries");
}

}  // namespace
}  // namespace tutti::protocol
