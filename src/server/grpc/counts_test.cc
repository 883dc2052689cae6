// Log lines and metrics of calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/grpc/testing/small_calls.h"

namespace tutti::rpc {
namespace {

using testing::CallOptions;
using testing::GrpcServerTest;
using ::testing::HasSubstr;
using testing::kInvalid;
using testing::kNotFound;
using testing::kTutti;
using testing::Outcome;

TEST_F(GrpcServerTest, ALineAndAMetricTellOfEachCall) {
  StartServer();
  CallOptions options;
  options.metadata = {{"x-request-id", "abc-1"}};
  EXPECT_TRUE(Embed(options).ok());
  options.metadata = {{"x-request-id", "bad id\""}};
  const Outcome outcome = Embed(options);
  EXPECT_THAT(outcome.Trailer("x-request-id"), HasSubstr("grpc-"));
  EXPECT_TRUE(Eventually([&] {
    return lines_->Joined().find("grpc.request id=abc-1 method=/tutti.v1.Tutti/Embed code=0") !=
           std::string::npos;
  })) << lines_->Joined();
  EXPECT_THAT(metrics_.Expose(), HasSubstr("server=\"grpc\""));
}

TEST_F(GrpcServerTest, CallsCountAsWhatTheirModelsDoAndTellWhereTheTimeWent) {
  StartServer();
  EXPECT_TRUE(Embed().ok());
  v1::ScoreRequest pairs;
  pairs.set_query("a");
  pairs.add_documents("ab");
  v1::ScoreResponse scores;
  EXPECT_TRUE(client_->Unary(kTutti + "Score", pairs, &scores).ok());
  EXPECT_TRUE(Infer(TextRequest("minilm", "text", {"a"})).ok());
  EXPECT_TRUE(Infer(TextRequest("classes", "text", {"a"})).ok());
  EXPECT_TRUE(Infer(Simple()).ok());
  EXPECT_EQ(Infer(TextRequest("minilm", "text", {""})).code, kInvalid);
  EXPECT_EQ(Infer(TextRequest("nobody", "text", {"a"})).code, kNotFound);
  inference_.on_generate = [](const std::shared_ptr<kserve::testing::FakeGeneration>& generation) {
    generation->Answer({"a"});
    return OkStatus();
  };
  EXPECT_TRUE(Infer(TextRequest("chat", "text_input", {"a"})).ok());
  const auto counted = [&](const char* op, int code, int count) {
    const std::string line = "tutti_requests_total{code=\"" + std::to_string(code) +
                             "\",door=\"grpc\",op=\"" + op + "\",server=\"grpc\"} " +
                             std::to_string(count) + "\n";
    return Eventually([&] { return metrics_.Expose().find(line) != std::string::npos; });
  };
  EXPECT_TRUE(counted("embed", 0, 2)) << metrics_.Expose();
  EXPECT_TRUE(counted("embed", kInvalid, 1)) << metrics_.Expose();
  EXPECT_TRUE(counted("score", 0, 2)) << metrics_.Expose();
  EXPECT_TRUE(counted("generate", 0, 1)) << metrics_.Expose();
  EXPECT_TRUE(counted("other", 0, 1)) << metrics_.Expose();
  EXPECT_TRUE(counted("other", kNotFound, 1)) << metrics_.Expose();
  // The four successful encodings are counted, failed ones are not.
  for (const char* const stage : {"tokenize", "queue", "encode"}) {
    EXPECT_THAT(metrics_.Expose(),
                HasSubstr("tutti_stage_seconds_count{stage=\"" + std::string(stage) + "\"} 4\n"));
  }
}

TEST_F(GrpcServerTest, AGenerationTellsWhereItsTimeWent) {
  StartServer();
  inference_.on_generate = [](const std::shared_ptr<kserve::testing::FakeGeneration>& generation) {
    generation->Answer({"a"});
    return OkStatus();
  };
  v1::GenerateRequest request;
  request.set_prompt("x");
  const auto call = client_->Start(kTutti + "Generate");
  ASSERT_TRUE(call->Write(request));
  call->WritesDone();
  v1::GenerateResponse response;
  while (call->Read(&response)) continue;
  EXPECT_TRUE(call->Finish().ok());
  for (const char* const stage : {"tokenize", "queue", "prefill", "decode"}) {
    EXPECT_THAT(metrics_.Expose(),
                HasSubstr("tutti_stage_seconds_count{stage=\"" + std::string(stage) + "\"} 1\n"));
  }
}

}  // namespace
}  // namespace tutti::rpc
