// Answers of encoders in each dialect: a client reads back the model's values.
#include "protocol/encoding/response.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "protocol/json/base64.h"
#include "protocol/json/json.h"

namespace tutti::protocol {
namespace {

api::EncodeResult Vectors(int width, std::vector<float> values, std::vector<int32_t> tokens) {
  api::EncodeResult result;
  result.width = width;
  result.values = std::move(values);
  result.tokens = std::move(tokens);
  return result;
}
EncodingCall Call(EncodingKind kind) {
  EncodingCall call;
  call.kind = kind;
  return call;
}
const EncodingHead kEncodingHead = {"id-1", "m\"1", 1234, {"good", "bad"}};

std::string BodyOf(const EncodingCall& call, const EncodingHead& head,
                   const api::EncodeResult& result) {
  return EncodingBody(call, head, result).value();
}

// The model was checked before its files were read: one score for each label then made indices
// beyond the documents.
TEST(EncodingResponse, SeveralScoresOfAPairAreNoRanking) {
  for (const EncodingKind kind :
       {EncodingKind::kRerank, EncodingKind::kTeiRerank, EncodingKind::kScore}) {
    EncodingCall call = Call(kind);
    call.texts = {"a", "b"};
    const Status status =
        EncodingBody(call, kEncodingHead, Vectors(3, {0, 1, 2, 3, 4, 5}, {4, 4})).status();
    EXPECT_EQ(status.reason(), "invalid_value");
    EXPECT_EQ(status.param(), "model");
    EXPECT_TRUE(EncodingBody(call, kEncodingHead, Vectors(1, {0, 1}, {4, 4})).ok());
  }
}

TEST(EncodingResponse, EmbeddingsAsNumbers) {
  EXPECT_EQ(
      BodyOf(Call(EncodingKind::kEmbeddings), kEncodingHead,
             Vectors(2, {1, -0.5f, 0.1f, 3e-9f}, {3, 4})),
      R"({"id":"id-1","object":"list","data":[{"object":"embedding","index":0,"embedding":[1.0,-0.5]},)"
      R"({"object":"embedding","index":1,"embedding":[0.1,3e-09]}],"model":"m\"1",)"
      R"("usage":{"prompt_tokens":7,"total_tokens":7}})");
}

TEST(EncodingResponse, EmbeddingsAsBase64HoldTheSameBits) {
  EncodingCall call = Call(EncodingKind::kEmbeddings);
  call.base64 = true;
  const std::vector<float> values = {1, -0.5f, 0.1f, 3e-9f};
  const JsonDocument body = *ParseJson(BodyOf(call, kEncodingHead, Vectors(2, values, {3, 4})));
  for (size_t i = 0; i < 2; ++i) {
    std::string expected;
    AppendBase64Floats(std::span(values).subspan(2 * i, 2), &expected);
    EXPECT_EQ(body.root().at("data").as_array()[i].at("embedding").as_string(), expected);
  }
}

TEST(EncodingResponse, RanksFallAndEqualOnesKeepTheirOrder) {
  EncodingCall call = Call(EncodingKind::kRerank);
  call.texts = {"a", "b", "c", "d\n"};
  const api::EncodeResult result =
      Vectors(1, {0.5f, 0.25f, std::numeric_limits<float>::quiet_NaN(), 0.5f}, {1, 1, 1, 1});
  EXPECT_EQ(
      BodyOf(call, kEncodingHead, result),
      R"({"id":"id-1","model":"m\"1","usage":{"prompt_tokens":4,"total_tokens":4},"results":[)"
      R"({"index":0,"document":{"text":"a"},"relevance_score":0.5},)"
      R"({"index":3,"document":{"text":"d\n"},"relevance_score":0.5},)"
      R"({"index":1,"document":{"text":"b"},"relevance_score":0.25},)"
      R"({"index":2,"document":{"text":"c"},"relevance_score":null}]})");
  call.texts.clear();
  call.top_n = 2;
  EXPECT_EQ(
      BodyOf(call, kEncodingHead, result),
      R"({"id":"id-1","model":"m\"1","usage":{"prompt_tokens":4,"total_tokens":4},"results":[)"
      R"({"index":0,"relevance_score":0.5},{"index":3,"relevance_score":0.5}]})");
  call.top_n = 9;
  EXPECT_EQ(ParseJson(BodyOf(call, kEncodingHead, result))->root().at("results").as_array().size(),
            4u);

  EncodingCall tei = Call(EncodingKind::kTeiRerank);
  EXPECT_EQ(BodyOf(tei, kEncodingHead, Vectors(1, {0, 2, 1}, {1, 1, 1})),
            R"([{"index":1,"score":2.0},{"index":2,"score":1.0},{"index":0,"score":0.0}])");
  tei.texts = {"x", "y"};
  EXPECT_EQ(BodyOf(tei, kEncodingHead, Vectors(1, {0, 2}, {1, 1})),
            R"([{"index":1,"text":"y","score":2.0},{"index":0,"text":"x","score":0.0}])");
}

TEST(EncodingResponse, ScoresKeepTheOrderOfTheRequest) {
  EXPECT_EQ(
      BodyOf(Call(EncodingKind::kScore), kEncodingHead, Vectors(1, {0.25f, 0.75f}, {2, 3})),
      R"({"id":"id-1","object":"list","created":1234,"model":"m\"1","data":[)"
      R"({"index":0,"object":"score","score":0.25},{"index":1,"object":"score","score":0.75}],)"
      R"("usage":{"prompt_tokens":5,"total_tokens":5}})");
}

TEST(EncodingResponse, VectorsOfTextsAndOfTheirTokens) {
  EXPECT_EQ(BodyOf(Call(EncodingKind::kTeiEmbed), kEncodingHead, Vectors(2, {1, 2, 3, 4}, {9, 9})),
            "[[1.0,2.0],[3.0,4.0]]");
  api::EncodeResult tokens = Vectors(2, {1, 2, 3, 4, 5, 6}, {2, 1});
  tokens.rows = {2, 1};
  EXPECT_EQ(BodyOf(Call(EncodingKind::kTeiEmbedAll), kEncodingHead, tokens),
            "[[[1.0,2.0],[3.0,4.0]],[[5.0,6.0]]]");
}

TEST(EncodingResponse, SparseVectorsListTheirValuesByIndex) {
  EXPECT_EQ(BodyOf(Call(EncodingKind::kTeiSparse), kEncodingHead,
                   Vectors(3, {0, 0.5f, 2, 0, 0, 0}, {4, 2})),
            R"([[{"index":1,"value":0.5},{"index":2,"value":2.0}],[]])");
}

TEST(EncodingResponse, PredictionsAreLabelledBestFirst) {
  EncodingCall call = Call(EncodingKind::kTeiPredict);
  call.listed = false;
  EXPECT_EQ(BodyOf(call, kEncodingHead, Vectors(2, {0.25f, 0.75f}, {1})),
            R"([{"score":0.75,"label":"bad"},{"score":0.25,"label":"good"}])");
  call.listed = true;
  EXPECT_EQ(BodyOf(call, kEncodingHead, Vectors(3, {1, 0, 2}, {1})),
            R"([[{"score":2.0,"label":"LABEL_2"},{"score":1.0,"label":"good"},)"
            R"({"score":0.0,"label":"bad"}]])");
}

TEST(EncodingResponse, SimilaritiesAreCosinesToTheFirst) {
  EXPECT_EQ(BodyOf(Call(EncodingKind::kTeiSimilarity), kEncodingHead,
                   Vectors(2, {3, 4, 6, 8, -3, -4, -4, 3, 0, 0}, {1, 1, 1, 1, 1})),
            "[1.0,-1.0,0.0,0.0]");
  const std::vector<float> big = {3e38f, 3e38f}, small = {1e-40f, 1e-40f};
  EXPECT_FLOAT_EQ(Cosine(big, small), 1) << "neither overflow nor underflow";
}

TEST(EncodingResponse, TheEstimateOfABodyIsNearItsSize) {
  EncodingCall call = Call(EncodingKind::kEmbeddings);
  std::vector<float> values;
  for (int i = 0; i < 64 * 384; ++i) values.push_back(std::sin(static_cast<float>(i)) / 19);
  const api::EncodeResult result = Vectors(384, values, std::vector<int32_t>(64, 7));
  for (const bool base64 : {false, true}) {
    call.base64 = base64;
    const size_t bytes = BodyOf(call, kEncodingHead, result).size();
    EXPECT_GE(EstimateEncodingBody(call, result), bytes) << base64;
    EXPECT_LE(EstimateEncodingBody(call, result), bytes + bytes / 3) << base64;
  }
}

}  // namespace
}  // namespace tutti::protocol
