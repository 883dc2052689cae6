// The routes of encoders, over a fake that answers with vectors a test can check.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "protocol/json/base64.h"
#include "server/http/router.h"
#include "server/http/testing/server_fixture.h"

namespace tutti::http {
namespace {

using namespace testing;  // NOLINT
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace json = boost::json;

constexpr const char* kOne = R"({"model":"fake-embed","input":"one"})";

class EncodingTest : public ServerTest {
 protected:
  json::value Json(const RawResponse& response) {
    EXPECT_EQ(response.Header("content-type"), "application/json");
    return json::parse(response.body);
  }
  json::value Good(const std::string& path, const std::string& body) {
    const RawResponse response = Ask(Post(path, body));
    EXPECT_EQ(response.status, 200) << response.body;
    return Json(response);
  }
  // status, then code, then param of a refusal in OpenAI's form, or TEI's.
  std::string Refusal(const std::string& path, const std::string& body) {
    const RawResponse response = Ask(Post(path, body));
    const json::object all = Json(response).as_object();
    const bool tei = all.contains("error_type");
    const json::object error = tei ? all : all.at("error").as_object();
    const auto text = [&](const char* member) {
      return error.at(member).is_string() ? std::string(error.at(member).as_string().c_str()) : "-";
    };
    return std::to_string(response.status) + " " + text(tei ? "error_type" : "type") + " " +
           text("code") + " " + text("param");
  }
  static std::vector<float> Floats(const json::value& array) {
    std::vector<float> out;
    for (const json::value& number : array.as_array()) out.push_back(number.to_number<float>());
    return out;
  }
};

TEST_F(EncodingTest, EmbeddingsComeInTheOrderOfTheirInputs) {
  StartServer();
  const RawResponse response = Ask(
      Post("/v1/embeddings", R"({"model":"fake-embed","input":["one","two","three"],"odd":1})"));
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.Header("x-tutti-ignored"), "odd");
  const json::value body = Json(response);
  EXPECT_EQ(body.at("object").as_string(), "list");
  EXPECT_EQ(body.at("model").as_string(), "fake-embed");
  EXPECT_EQ(body.at("usage").at("prompt_tokens").as_int64(), 3 + 3 + 5 + 3 * 2);
  EXPECT_EQ(body.at("usage").at("total_tokens").as_int64(), 17);
  const char* const texts[] = {"one", "two", "three"};
  ASSERT_EQ(body.at("data").as_array().size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const json::value& item = body.at("data").as_array()[i];
    EXPECT_EQ(item.at("index").as_int64(), static_cast<int64_t>(i));
    EXPECT_EQ(item.at("object").as_string(), "embedding");
    EXPECT_EQ(Floats(item.at("embedding")), FakeRow(texts[i], 5)) << "to the last bit";
  }
}

TEST_F(EncodingTest, EveryFormOfInputAndBase64HoldTheSameFloats) {
  StartServer();
  for (const auto& [input, text] : std::map<std::string, std::string>{
           {R"("one")", "one"}, {R"(["one"])", "one"}, {"[7,8]", "7,8,"}, {"[[7,8]]", "7,8,"}}) {
    const std::string fields = R"({"model":"fake-embed","input":)" + input;
    const json::value plain = Good("/v1/embeddings", fields + "}");
    EXPECT_EQ(Floats(plain.at("data").at(0).at("embedding")), FakeRow(text, 5)) << input;
    const json::value base64 =
        Good("/embeddings", fields + R"(,"encoding_format":"base64","user":"u"})");
    std::string expected;
    protocol::AppendBase64Floats(FakeRow(text, 5), &expected);
    EXPECT_EQ(base64.at("data").at(0).at("embedding").as_string(), expected) << input;
  }
}

TEST_F(EncodingTest, WhatIsAskedForReachesInference) {
  StartServer();
  const json::value body = Good(
      "/v1/embeddings",
      R"({"model":"fake-embed","input":"one","dimensions":3,"normalize":false,"prompt_name":"query",)"
      R"("truncate_prompt_tokens":4,"truncation_side":"left","request_id":"mine","deadline_ms":60000})");
  EXPECT_EQ(Floats(body.at("data").at(0).at("embedding")), FakeRow("one", 3));
  EXPECT_EQ(body.at("usage").at("prompt_tokens").as_int64(), 4);
  const api::EncodeRequest& request = inference_.Encoding(0)->request;
  EXPECT_EQ(request.model, "fake-embed");
  EXPECT_EQ(request.normalize, false);
  EXPECT_EQ(request.prompt_name, "query");
  EXPECT_EQ(request.truncation, api::Truncation::kLeft);
  EXPECT_EQ(request.truncate_tokens, 4);
  EXPECT_EQ(request.request_id, "mine");
  EXPECT_LT(request.deadline, clock_.Now() + std::chrono::seconds(61));
  const RawResponse header =
      Ask(Post("/v1/embeddings", kOne, "X-Request-Id: theirs\r\nX-Request-Timeout-Ms: 5000\r\n"));
  EXPECT_EQ(header.Header("x-request-id"), "theirs");
  EXPECT_EQ(inference_.Encoding(1)->request.request_id, "theirs");
  EXPECT_LT(inference_.Encoding(1)->request.deadline, clock_.Now() + std::chrono::seconds(6));
  EXPECT_EQ(Ask(Post("/v1/embeddings", kOne, "X-Request-Timeout-Ms: 0\r\n")).status, 400);
}

TEST_F(EncodingTest, RanksAndScoresOfACrossEncoder) {
  StartServer();
  const float a = FakeRow("q\na", 1)[0], b = FakeRow("q\nb", 1)[0];
  const bool a_first = a > b;
  for (const char* path : {"/v1/rerank", "/v2/rerank", "/rerank"}) {
    const json::value body = Good(path, R"({"query":"q","documents":["a",{"text":"b"}]})");
    EXPECT_EQ(body.at("model").as_string(), "fake-rerank") << "the first that ranks";
    EXPECT_TRUE(body.at("id").as_string().starts_with("rerank-"));
    const json::value& first = body.at("results").at(0);
    EXPECT_EQ(first.at("index").as_int64(), a_first ? 0 : 1);
    EXPECT_EQ(first.at("document").at("text").as_string(), a_first ? "a" : "b");
    EXPECT_EQ(first.at("relevance_score").to_number<float>(), a_first ? a : b);
    EXPECT_EQ(body.at("usage").at("total_tokens").as_int64(), 10);
  }
  const json::value top = Good(
      "/v1/rerank", R"({"query":"q","documents":["a","b"],"top_n":1,"return_documents":false})");
  ASSERT_EQ(top.at("results").as_array().size(), 1u);
  EXPECT_FALSE(top.at("results").at(0).as_object().contains("document"));

  const RawResponse tei =
      Ask(Post("/rerank", R"({"query":"q","texts":["a","b"],"return_text":true})"));
  EXPECT_EQ(tei.Header("x-compute-tokens"), "10");
  EXPECT_EQ(Json(tei).at(0).at("text").as_string(), a_first ? "a" : "b");
  EXPECT_EQ(Json(tei).at(1).at("score").to_number<float>(), a_first ? b : a);

  for (const char* path : {"/v1/score", "/score"}) {
    const json::value scores = Good(path, R"({"text_1":"q","text_2":["a","b"],"raw_scores":true})");
    EXPECT_TRUE(scores.at("id").as_string().starts_with("embd-"));
    EXPECT_EQ(scores.at("data").at(0).at("score").to_number<float>(), a);
    EXPECT_EQ(scores.at("data").at(1).at("score").to_number<float>(), b);
    EXPECT_EQ(scores.at("data").at(1).at("index").as_int64(), 1);
  }
}

TEST_F(EncodingTest, TheRoutesOfTextEmbeddingsInference) {
  StartServer();
  const RawResponse embed = Ask(Post("/embed", R"({"inputs":["one",[7,8]]})"));
  EXPECT_EQ(Floats(Json(embed).at(0)), FakeRow("one", 5));
  EXPECT_EQ(Floats(Json(embed).at(1)), FakeRow("7,8,", 5));
  EXPECT_EQ(embed.Header("x-compute-type"), "cpu");
  EXPECT_EQ(embed.Header("x-compute-characters"), "5");
  EXPECT_EQ(embed.Header("x-compute-tokens"), "7");
  EXPECT_EQ(embed.Header("x-tokenization-time"), "1");
  EXPECT_EQ(embed.Header("x-queue-time"), "2");
  EXPECT_EQ(embed.Header("x-inference-time"), "3");
  EXPECT_EQ(embed.Header("x-total-time"), embed.Header("x-compute-time"));
  EXPECT_EQ(inference_.Encoding(0)->request.normalize, true);

  const json::value all = Good("/embed_all", R"({"inputs":["one","a"]})");
  ASSERT_EQ(all.at(0).as_array().size(), 5u) << "a row for each token";
  ASSERT_EQ(all.at(1).as_array().size(), 3u);
  EXPECT_EQ(Floats(all.at(0).at(0)), FakeRow("one", 5));
  EXPECT_EQ(Floats(all.at(1).at(2)), FakeRow("a#2", 5));

  EXPECT_THAT(Ask(Post("/embed_sparse", R"({"inputs":"one","model":"fake-embed"})")).body,
              ::testing::HasSubstr("gives no sparse vectors"));
  api::EncoderInfo splade;
  splade.width = 5;
  splade.sparse = true;
  inference_.Add(MakeFakeEncoder("fake-splade", splade));
  const json::value sparse =
      Good("/embed_sparse", R"({"inputs":["one","a"],"model":"fake-splade"})");
  ASSERT_EQ(sparse.as_array().size(), 2u);
  for (const json::value& each : sparse.at(0).as_array()) {
    EXPECT_EQ(each.at("value").to_number<float>(),
              FakeRow("one", 5)[each.at("index").to_number<size_t>()]);
  }

  const json::value single =
      Good("/predict", R"({"inputs":"one","model":"fake-classes","raw_scores":true})");
  ASSERT_EQ(single.as_array().size(), 3u);
  EXPECT_GE(single.at(0).at("score").to_number<float>(),
            single.at(1).at("score").to_number<float>());
  std::set<std::string> labels;
  for (const json::value& each : single.as_array())
    labels.insert(each.at("label").as_string().c_str());
  EXPECT_THAT(labels, ElementsAre("bad", "good", "neither"));
  EXPECT_EQ(Good("/predict", R"({"inputs":[["a"],["b","c"]]})").at(1).at(0).at("label").as_string(),
            "relevance");

  const json::value cosines =
      Good("/similarity", R"({"inputs":{"source_sentence":"one","sentences":["one","two"]}})");
  EXPECT_EQ(cosines.at(0).to_number<double>(), 1.0);
  EXPECT_LT(cosines.at(1).to_number<double>(), 1.0);

  EXPECT_EQ(Ask(Post("/decode", R"({"ids":[97,60,98]})")).body, R"(["ab"])");
  EXPECT_EQ(Ask(Post("/decode", R"({"ids":[[97],[60]],"skip_special_tokens":false})")).body,
            R"(["a","<"])");
  EXPECT_EQ(Refusal("/decode", R"({"ids":[[97],[300]]})"),
            "422 Tokenizer token_out_of_range ids[1]");
  EXPECT_THAT(Ask(Get("/info")).body, HasSubstr(R"("model_id":"fake-embed")"));
  EXPECT_THAT(Ask(Get("/v1/models")).body, HasSubstr(R"("tasks":["rerank","score"])"));
}

// Clients that are configured with the base address only (langchain's, huggingface_hub's).
TEST_F(EncodingTest, TheAddressAloneDoesWhatTheBodyAsksFor) {
  StartServer();
  EXPECT_EQ(Floats(Good("/", R"({"inputs":"one"})").at(0)), FakeRow("one", 5));
  EXPECT_EQ(Good("/", R"({"query":"q","texts":["a"]})").at(0).at("index").as_int64(), 0);
  EXPECT_EQ(Good("/", R"({"inputs":{"source_sentence":"a","sentences":["a"]},"parameters":{}})")
                .at(0)
                .to_number<double>(),
            1.0);
  EXPECT_EQ(Refusal("/", R"({"inputs":[]})"), "400 Empty empty_prompt inputs");
  EXPECT_EQ(Refusal("/", R"({"inputs":"one","parameters":{"max_new_tokens":5}})"),
            "400 Validation unsupported_parameter parameters.max_new_tokens");
  EXPECT_EQ(Ask("DELETE / HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 405);
}

TEST_F(EncodingTest, OneBadInputRefusesTheRequestAndIsNamed) {
  StartServer();
  EXPECT_EQ(Refusal("/v1/embeddings", R"({"model":"fake-embed","input":["a","b","c",""]})"),
            "400 invalid_request_error empty_prompt input[3]");
  const std::string text(63, 'x');  // 65 tokens; the model reads 64
  const auto longer = [&](const std::string& before, const std::string& after) {
    return before + "\"" + text + "\"" + after;
  };
  EXPECT_EQ(Refusal("/v1/embeddings", longer(R"({"model":"fake-embed","input":["a",)", "]}")),
            "400 invalid_request_error context_length_exceeded input[1]");
  EXPECT_EQ(Refusal("/v1/embeddings", longer(R"({"model":"fake-embed","input":)", "}")),
            "400 invalid_request_error context_length_exceeded input");
  const RawResponse refused =
      Ask(Post("/v1/embeddings", longer(R"({"model":"fake-embed","input":["a",)", "]}")));
  EXPECT_THAT(refused.body, HasSubstr(R"("n_prompt_tokens":65,"n_ctx":64)")) << "as of a prompt";
  EXPECT_EQ(Refusal("/v1/rerank", longer(R"({"query":"q","documents":["a",)", "]}")),
            "400 invalid_request_error context_length_exceeded documents[1]");
  EXPECT_EQ(Refusal("/score", longer(R"({"queries":"q","items":["a",)", "]}")),
            "400 invalid_request_error context_length_exceeded items[1]");
  EXPECT_EQ(Refusal("/rerank", longer(R"({"query":"q","texts":["a",)", "]}")),
            "422 Validation context_length_exceeded texts[1]");
  EXPECT_EQ(Refusal("/embed", longer(R"({"inputs":["a",)", "]}")),
            "422 Validation context_length_exceeded inputs[1]");
  EXPECT_EQ(Refusal("/similarity",
                    longer(R"({"inputs":{"source_sentence":"a","sentences":["b",)", "]}}")),
            "422 Validation context_length_exceeded inputs.sentences[1]");
  EXPECT_EQ(Good("/v1/embeddings",
                 longer(R"({"truncate_prompt_tokens":-1,"model":"fake-embed","input":["a",)", "]}"))
                .at("usage")
                .at("prompt_tokens")
                .as_int64(),
            3 + 64);
  EXPECT_EQ(Good("/embed", longer(R"({"truncate":true,"inputs":["a",)", "]}")).as_array().size(),
            2u);
}

TEST_F(EncodingTest, RefusalsAreWrittenInTheDialectOfTheRoute) {
  StartServer();
  EXPECT_EQ(Refusal("/v1/embeddings", "{"), "400 invalid_request_error invalid_json -");
  EXPECT_EQ(Refusal("/embed", "{"), "400 Validation invalid_json -");
  EXPECT_EQ(Refusal("/rerank", "{"), "400 invalid_request_error invalid_json -");
  EXPECT_EQ(Refusal("/embed", R"({"inputs":[]})"), "400 Empty empty_prompt inputs");
  EXPECT_EQ(Refusal("/embed", R"({"inputs":"a","dimensions":0})"),
            "422 Validation invalid_value dimensions");
  EXPECT_EQ(Refusal("/rerank", R"({"query":"q","texts":[]})"), "400 Empty empty_prompt texts");
  EXPECT_EQ(Refusal("/rerank", R"({"query":"q","documents":["a"],"texts":["b"],"top_n":-1})"),
            "400 invalid_request_error invalid_value top_n");
  EXPECT_EQ(Refusal("/v1/embeddings", R"({"model":"nobody","input":"a"})"),
            "404 invalid_request_error model_not_found model");
  EXPECT_EQ(Refusal("/embed", R"({"model":"nobody","inputs":"a"})"),
            "404 Validation model_not_found model");
  EXPECT_EQ(Refusal("/embed", R"({"model":"fake-rerank","inputs":"a"})"),
            "424 Backend invalid_value model");
  EXPECT_EQ(Refusal("/v1/rerank", R"({"model":"fake-classes","query":"q","documents":["a"]})"),
            "400 invalid_request_error invalid_value model");
  EXPECT_EQ(Refusal("/tokenize", R"({"inputs":[7]})"), "422 Validation invalid_value inputs[0]");
  inference_.on_encode = [](const auto&) { return Unavailable("queue_full", "there is no room"); };
  EXPECT_EQ(Refusal("/v1/embeddings", kOne), "503 server_error queue_full -");
  const RawResponse busy = Ask(Post("/embed", R"({"inputs":"a"})"));
  EXPECT_EQ(busy.status, 429);
  EXPECT_NE(busy.Header("retry-after"), "");
  EXPECT_THAT(busy.body, HasSubstr(R"("error_type":"Overloaded")"));
}

TEST_F(EncodingTest, AFailureOfTheModelIsTheAnswer) {
  inference_.holds_encodings = true;
  StartServer();
  RawClient openai(port()), tei(port());
  openai.Send(Post("/v1/embeddings", R"({"model":"fake-embed","input":["a","b"]})"));
  auto encoding = inference_.Encoding(0);
  ASSERT_NE(encoding, nullptr);
  encoding->Finish(
      InvalidArgument("context_length_exceeded", "input 1 is long").WithParam("input[1]"));
  EXPECT_THAT(openai.Read().body, HasSubstr(R"("param":"input[1]")"));
  tei.Send(Post("/embed", R"({"inputs":["a","b"]})"));
  encoding = inference_.Encoding(1);
  ASSERT_NE(encoding, nullptr);
  encoding->Finish(Internal("row 3 at address 0x7f: NaN"));
  const RawResponse failed = tei.Read();
  EXPECT_EQ(failed.status, 424);
  EXPECT_EQ(failed.body.find("0x7f"), std::string::npos) << "for the log alone";
  log_.Flush();
  EXPECT_THAT(lines_->Joined(), HasSubstr("0x7f"));
  EXPECT_EQ(Ask(Get("/livez")).status, 200);
}

TEST_F(EncodingTest, AClientThatLeavesCancels) {
  inference_.holds_encodings = true;
  StartServer();
  for (const bool reset : {false, true}) {
    RawClient client(port());
    client.Send(Post("/v1/embeddings", kOne));
    const auto encoding = inference_.Encoding(reset);
    ASSERT_NE(encoding, nullptr);
    EXPECT_FALSE(encoding->cancelled);
    if (reset) {
      client.Reset();
    } else {
      client.Close();
    }
    EXPECT_TRUE(Eventually([&] { return encoding->cancelled.load(); }));
    encoding->Answer();  // too late: the client has gone
  }
  EXPECT_TRUE(Eventually([&] { return server_->active_requests() == 0; }));
  inference_.holds_encodings = false;
  EXPECT_EQ(Ask(Post("/v1/embeddings", kOne)).status, 200);
}

TEST_F(EncodingTest, NobodyWaitsForAnEncodingButItsClient) {
  inference_.holds_encodings = true;
  HttpOptions options;
  options.io_threads = 1;
  StartServer(options);
  constexpr size_t kClients = 50;
  std::vector<std::unique_ptr<RawClient>> clients;
  for (size_t i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<RawClient>(port()));
    clients[i]->Send(Post("/v1/embeddings",
                          R"({"model":"fake-embed","input":"text )" + std::to_string(i) + "\"}"));
    ASSERT_NE(inference_.Encoding(i), nullptr);
  }
  EXPECT_EQ(Ask(Get("/livez")).status, 200);
  for (size_t i = kClients; i-- > 0;) inference_.Encoding(i)->SetAnswer();
  inference_.Encoding(0)->Wake();  // one wake for all that are done
  for (size_t i = 0; i < kClients; ++i) {
    const RawResponse response = clients[i]->Read();
    ASSERT_EQ(response.status, 200);
    EXPECT_EQ(Floats(json::parse(response.body).at("data").at(0).at("embedding")),
              FakeRow("text " + std::to_string(i), 5));
  }
}

TEST_F(EncodingTest, RequestsOfOneConnectionAreAnsweredOneAfterTheOther) {
  StartServer();
  RawClient client(port());
  std::string requests;
  for (int i = 0; i < 20; ++i) {
    requests += i % 2 == 0
                    ? Post("/embed", R"({"inputs":"t)" + std::to_string(i) + "\"}")
                    : Post("/v1/rerank", R"({"query":"q","documents":["a"],"bad":1,"top_n":"x"})");
  }
  client.Send(requests);
  for (int i = 0; i < 20; ++i) {
    const RawResponse response = client.Read();
    ASSERT_EQ(response.status, i % 2 == 0 ? 200 : 400) << "each in its own dialect";
    if (i % 2 == 0) {
      EXPECT_EQ(Floats(json::parse(response.body).at(0)), FakeRow("t" + std::to_string(i), 5));
    } else {
      EXPECT_TRUE(json::parse(response.body).as_object().at("error").is_object());
    }
  }
}

TEST_F(EncodingTest, GzipIsRefusedAsEverywhere) {
  StartServer();
  for (const char* path : {"/v1/embeddings", "/embed", "/v1/rerank"}) {
    const RawResponse response = Ask(Post(path, "\x1f\x8b garbage", "Content-Encoding: gzip\r\n"));
    EXPECT_EQ(response.status, 415) << path;
    EXPECT_THAT(response.body, HasSubstr("unsupported_media_type"));
  }
  EXPECT_THAT(Ask(Post("/embed", "x", "Content-Encoding: gzip\r\n")).body,
              HasSubstr(R"("error_type":"Validation")"));
}

TEST_F(EncodingTest, StrictModeRefusesWhatIsNotKnown) {
  HttpOptions options;
  options.strict = true;
  StartServer(options);
  EXPECT_EQ(Refusal("/v1/embeddings", R"({"model":"fake-embed","input":"a","odd":1})"),
            "400 invalid_request_error unknown_parameter odd");
  EXPECT_EQ(Refusal("/embed", R"({"inputs":"a","odd":1})"), "422 Validation unknown_parameter odd");
}

TEST_F(EncodingTest, WhereTheTimeWentIsToldOnRequest) {
  StartServer();
  EXPECT_EQ(Ask(Post("/v1/embeddings", kOne)).Header("server-timing"), "");
  const std::string timing =
      Ask(Post("/v1/embeddings", kOne, "X-Tutti-Timings: 1\r\n")).Header("server-timing");
  for (const char* part : {"read;dur=", "parse;dur=", "tokenize;dur=1.000", "queue;dur=2.000",
                           "encode;dur=3.000", "handover;dur=", "serialise;dur=", "total;dur="})
    EXPECT_THAT(timing, HasSubstr(part));
  EXPECT_THAT(
      Ask(Get("/metrics")).body,
      HasSubstr(R"(tutti_requests_total{code="200",door="http",op="embed",server="http"} 2)"));
}

}  // namespace
}  // namespace tutti::http
