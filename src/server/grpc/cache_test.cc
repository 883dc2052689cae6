// Cache control in requests of gRPC clients, and the cache report in responses.
#include <gtest/gtest.h>
#include <tutti/v1/tutti.pb.h>

#include <chrono>
#include <string>

#include "api/answer_cache.h"
#include "server/grpc/testing/server_fixture.h"

namespace tutti::rpc {
namespace {

using api::CacheOutcome;
using std::chrono::seconds;
using testing::CallOptions;
using testing::kInference;
using testing::kTutti;
using testing::Outcome;

class CacheTest : public testing::ServerTest {
 protected:
  void SetUp() override {
    inference_.on_generate = [](const auto& generation) {
      const api::GenerateRequest& request = generation->request;
      request.cache_report->Set(request.cache.no_store ? CacheOutcome::kBypass : CacheOutcome::kHit,
                                seconds(2));
      generation->Answer({"one"});
      return OkStatus();
    };
    inference_.on_encode = [](const auto& encoding) {
      const api::EncodeRequest& request = encoding->request;
      request.cache_report->Set(
          request.cache.no_cache ? CacheOutcome::kBypass : CacheOutcome::kMiss, {});
      encoding->Answer();
      return OkStatus();
    };
    StartServer();
  }
  static CallOptions Wishing(const std::string& control) {
    CallOptions options;
    options.metadata = {{"cache-control", control}};
    return options;
  }
};

TEST_F(CacheTest, OurServiceTellsItInFrontOfTheFirstMessage) {
  v1::GenerateRequest prompt;
  prompt.set_prompt("Once");
  for (const bool wishes : {false, true}) {
    const auto call =
        client_->Start(kTutti + "Generate", wishes ? Wishing("no-store") : CallOptions());
    ASSERT_TRUE(call->Write(prompt));
    call->WritesDone();
    v1::GenerateResponse response;
    ASSERT_TRUE(call->Read(&response));
    while (call->Read(&response)) {
    }
    const Outcome outcome = call->Finish();
    EXPECT_TRUE(outcome.ok());
    EXPECT_EQ(outcome.Header("x-cache"), wishes ? "bypass" : "hit");
    EXPECT_EQ(outcome.Header("age"), wishes ? "" : "2");
  }
  v1::EmbedRequest texts;
  texts.add_texts("a");
  v1::EmbedResponse vectors;
  EXPECT_EQ(client_->Unary(kTutti + "Embed", texts, &vectors).Header("x-cache"), "miss");
  EXPECT_EQ(
      client_->Unary(kTutti + "Embed", texts, &vectors, Wishing("no-cache")).Header("x-cache"),
      "bypass");
  v1::ScoreRequest pairs;
  pairs.set_query("abcd");
  pairs.add_documents("abc");
  v1::ScoreResponse scores;
  EXPECT_EQ(client_->Unary(kTutti + "Score", pairs, &scores).Header("x-cache"), "miss");
}

TEST_F(CacheTest, KserveTellsItOfACallOrOfEachRequestOfAStream) {
  const auto chat = TextRequest("chat", "text_input", {"Hi"}, "c");
  const auto vectors = TextRequest("minilm", "text", {"Hi"}, "v");
  inference::ModelInferResponse response;
  const Outcome hit = client_->Unary(kInference + "ModelInfer", chat, &response);
  ASSERT_TRUE(hit.ok()) << hit.message;
  EXPECT_EQ(hit.Header("x-cache"), "hit");
  EXPECT_EQ(hit.Header("age"), "2");
  EXPECT_EQ(response.parameters().count("x-cache"), 0u);

  const auto call = client_->Start(kInference + "ModelStreamInfer");
  for (const auto& [request, outcome] :
       {std::pair(chat, "hit"), std::pair(vectors, "miss"), std::pair(Simple(), "")}) {
    ASSERT_TRUE(call->Write(request));
    inference::ModelStreamInferResponse one;
    ASSERT_TRUE(call->Read(&one));
    EXPECT_EQ(one.error_message(), "");
    const auto& parameters = one.infer_response().parameters();
    const auto found = parameters.find("x-cache");
    EXPECT_EQ(found == parameters.end() ? "" : found->second.string_param(), outcome);
  }
  call->WritesDone();
  EXPECT_TRUE(call->Finish().ok());
}

TEST_F(CacheTest, WhereNoCacheWasAskedNothingIsSaid) {
  inference::ModelInferResponse response;
  const Outcome outcome = client_->Unary(kInference + "ModelInfer", Simple(), &response);
  ASSERT_TRUE(outcome.ok()) << outcome.message;
  EXPECT_EQ(outcome.Header("x-cache"), "");
}

}  // namespace
}  // namespace tutti::rpc
