// The number of calls prepared at once, and the queue of the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/grpc/testing/small_calls.h"

namespace tutti::rpc {
namespace {

using kserve::testing::FakeEncoding;
using testing::CallOptions;
using testing::GrpcServerTest;
using ::testing::HasSubstr;
using testing::kCancelled;
using testing::kInference;
using testing::kTutti;
using testing::kUnavailable;
using testing::OneText;
using testing::Outcome;

TEST_F(GrpcServerTest, CallsBeyondTheHandlersWaitTheirTurnWithoutAThread) {
  GrpcOptions options;
  options.handlers = 2;
  StartServer(options);
  // Generations whose prompts are being read hold their handlers.
  v1::GenerateRequest request;
  request.set_prompt("x");
  std::vector<std::unique_ptr<testing::TestCall>> calls;
  for (int i = 0; i < 6; ++i) {
    calls.push_back(client_->Start(kTutti + "Generate"));
    ASSERT_TRUE(calls.back()->Write(request));
    if (i == 1) {  // the server may take calls that come together in another order
      ASSERT_NE(inference_.Generation(1), nullptr);
    }
  }
  usleep(50'000);
  EXPECT_EQ(inference_.generations(), 2u);
  EXPECT_EQ(Check("minilm"), 1);  // what is not prepared does not wait
  // A cancelled call leaves the queue.
  calls[3]->Cancel();
  EXPECT_EQ(calls[3]->Finish().code, kCancelled);
  ASSERT_TRUE(Eventually([&] { return server_->active_requests() == 5; }));
  for (size_t k = 0; k < 5; ++k) {
    const auto generation = inference_.Generation(k);
    ASSERT_NE(generation, nullptr) << k;
    EXPECT_LE(inference_.generations(), k + 2);
    generation->Answer({"done"});
  }
  for (int i = 0; i < 6; ++i) {
    if (i == 3) continue;
    v1::GenerateResponse response;
    EXPECT_TRUE(calls[static_cast<size_t>(i)]->Read(&response)) << i;
    EXPECT_EQ(response.text(), "done");
  }
  EXPECT_EQ(inference_.generations(), 5u);
}

TEST_F(GrpcServerTest, EncodingsWhoseTextsAreStillBeingReadHoldTheirHandlers) {
  GrpcOptions options;
  options.handlers = 2;
  StartServer(options);
  inference_.prepares = false;
  inference_.on_encode = [](const std::shared_ptr<FakeEncoding>&) { return OkStatus(); };
  const v1::EmbedRequest embed = OneText();
  const inference::ModelInferRequest infer = TextRequest("minilm", "text", {"a"});
  v1::EmbedResponse embedded;
  inference::ModelInferResponse inferred;
  struct Way {
    std::string method;
    const google::protobuf::MessageLite& request;
    google::protobuf::MessageLite& response;
  };
  const Way ways[] = {{kTutti + "Embed", embed, embedded},
                      {kInference + "ModelInfer", infer, inferred}};
  size_t told = 0;
  for (const auto& [method, request, response] : ways) {
    std::vector<std::unique_ptr<testing::TestCall>> calls;
    for (int i = 0; i < 4; ++i) {
      calls.push_back(client_->Start(method));
      ASSERT_TRUE(calls.back()->Write(request));
    }
    ASSERT_NE(inference_.Encoding(told + 1), nullptr) << method;
    usleep(50'000);
    EXPECT_EQ(inference_.encodings(), told + 2) << method;
    // A prepared call makes room for the next, even before its result.
    inference_.Encoding(told)->Prepared();
    ASSERT_NE(inference_.Encoding(told + 2), nullptr) << method;
    usleep(50'000);
    EXPECT_EQ(inference_.encodings(), told + 3) << method;
    for (size_t k = told; k < told + 4; ++k) {
      ASSERT_NE(inference_.Encoding(k), nullptr) << method;
      inference_.Encoding(k)->Answer();
    }
    for (const auto& call : calls) {
      EXPECT_TRUE(call->Read(&response)) << method;
      EXPECT_TRUE(call->Finish().ok()) << method;
    }
    told += 4;
  }
}

TEST_F(GrpcServerTest, TheLineForAHandlerIsBounded) {
  GrpcOptions options;
  options.handlers = 1;
  options.limits.waiting_calls = 2;
  StartServer(options);
  v1::GenerateRequest request;
  request.set_prompt("x");
  std::vector<std::unique_ptr<testing::TestCall>> calls;
  for (int i = 0; i < 3; ++i) {
    calls.push_back(client_->Start(kTutti + "Generate"));
    ASSERT_TRUE(calls.back()->Write(request));
    usleep(10'000);
  }
  const Outcome refused = Embed();
  EXPECT_EQ(refused.code, kUnavailable);
  EXPECT_EQ(refused.Trailer("tutti-error-code"), "queue_full");
  EXPECT_THAT(refused.details, HasSubstr("RetryInfo"));
  for (size_t k = 0; k < 3; ++k) inference_.Generation(k)->Answer({"a"});
  EXPECT_TRUE(Embed().ok());
}

// Row U04: 64 calls at once with 10 handlers; memory over many calls is judged in the e2e tests.
TEST_F(GrpcServerTest, SixtyFourCallsOnTenHandlersAllFinish) {
  StartServer();
  inference_.on_generate = [](const std::shared_ptr<kserve::testing::FakeGeneration>& generation) {
    std::thread([generation] {
      usleep(2000);
      generation->Answer({"a", "b"});
    }).detach();
    return OkStatus();
  };
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 64; ++t) {
    threads.emplace_back([&] {
      v1::GenerateRequest request;
      request.set_prompt("x");
      CallOptions options;
      options.timeout = std::chrono::seconds(60);
      const auto call = client_->Start(kTutti + "Generate", options);
      (void)call->Write(request);
      call->WritesDone();
      std::string text;
      v1::GenerateResponse response;
      while (call->Read(&response)) text += response.text();
      if (call->Finish().ok() && text == "ab") ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good.load(), 64);
}

}  // namespace
}  // namespace tutti::rpc
