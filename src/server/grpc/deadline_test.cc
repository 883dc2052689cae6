// Calls that end early: deadlines, cancels, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using testing::kInvalid;
using testing::kLate;
using testing::kTutti;
using testing::kUnavailable;
using ::testing::Not;
using testing::OneText;
using testing::Outcome;
using testing::TestClient;

TEST_F(GrpcServerTest, AnExpiredDeadlineReachesNoModel) {
  GrpcOptions options;
  options.handlers = 1;
  StartServer(options);
  // A prompt that is being read holds the one handler until the others are too late.
  v1::GenerateRequest first;
  first.set_prompt("x");
  const auto holder = client_->Start(kTutti + "Generate");
  ASSERT_TRUE(holder->Write(first));
  ASSERT_NE(inference_.Generation(0), nullptr);
  CallOptions impatient;
  impatient.timeout = std::chrono::milliseconds(50);
  EXPECT_EQ(Embed(impatient).code, kLate);
  EXPECT_EQ(Infer(TextRequest("minilm", "text", {"a"}), nullptr, impatient).code, kLate);
  EXPECT_TRUE(Eventually([&] { return server_->active_requests() == 1; }));
  inference_.Generation(0)->Answer({"a"});
  EXPECT_TRUE(Embed().ok());
  EXPECT_EQ(inference_.encodings(), 1u);
  // A timeout that KServe carries counts too, from the request's arrival.
  inference::ModelInferRequest request = TextRequest("minilm", "text", {"a"});
  (*request.mutable_parameters())["timeout"].set_int64_param(60'000'000);
  ASSERT_TRUE(Infer(request).ok());
  const Duration left = inference_.Encoding(1)->request.deadline - clock_.Now();
  EXPECT_GT(left, std::chrono::seconds(10));
  EXPECT_LE(left, std::chrono::seconds(61));
}

TEST_F(GrpcServerTest, ADeadlineThatPassesFreesTheRequest) {
  StartServer();
  inference_.on_encode = [](const std::shared_ptr<FakeEncoding>&) { return OkStatus(); };
  CallOptions options;
  options.timeout = std::chrono::milliseconds(500);  // enough to reach the model on a busy machine
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(Embed(options).code, kLate);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  const auto encoding = inference_.Encoding(0);
  ASSERT_NE(encoding, nullptr);
  EXPECT_TRUE(Eventually([&] { return encoding->cancelled.load(); }));
  EXPECT_TRUE(Eventually([&] { return server_->active_requests() == 0; }));
}

TEST_F(GrpcServerTest, AThousandCancelsLeaveNothingBehind) {
  StartServer();
  inference_.on_encode = [](const std::shared_ptr<FakeEncoding>&) { return OkStatus(); };
  const auto amount = static_cast<size_t>(1000 / support::kSlower);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      TestClient client(server_->port());
      for (size_t i = 0; i < amount / 4; ++i) {
        const auto call = client.Start(kTutti + "Embed");
        if (i % 3 != 0) (void)call->Write(OneText());
        if (i % 3 == 2) usleep(500);
        call->Cancel();
        EXPECT_EQ(call->Finish().code, kCancelled);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Eventually([&] { return server_->active_requests() == 0; }));
  for (size_t i = 0; i < inference_.encodings(); ++i) {
    EXPECT_TRUE(Eventually([&] { return inference_.Encoding(i)->cancelled.load(); })) << i;
  }
  inference_.on_encode = [](const std::shared_ptr<FakeEncoding>& encoding) {
    encoding->Answer();
    return OkStatus();
  };
  EXPECT_TRUE(Embed().ok());
}

TEST_F(GrpcServerTest, RefusalsSayWhenToComeBack) {
  StartServer();
  const auto refuse_with = [&](const Status& status) {
    inference_.on_encode = [status](const std::shared_ptr<FakeEncoding>&) { return status; };
    return Embed();
  };
  const Outcome full = refuse_with(Unavailable("queue_full", "the queue is full")
                                       .WithRetryAfter(std::chrono::milliseconds(1500)));
  EXPECT_EQ(full.code, kUnavailable);
  EXPECT_EQ(full.message, "the queue is full");
  EXPECT_EQ(full.Trailer("tutti-error-code"), "queue_full");
  EXPECT_THAT(full.details, HasSubstr("type.googleapis.com/google.rpc.RetryInfo"));
  // RetryInfo{retry_delay{seconds: 1, nanos: 500000000}}, in its bytes.
  EXPECT_THAT(full.details, HasSubstr(std::string("\x0a\x08\x08\x01\x10\x80\xca\xb5\xee\x01")));
  const Outcome rate = refuse_with(ResourceExhausted("tenant_rate", "too fast"));
  EXPECT_EQ(rate.code, 8);
  EXPECT_THAT(rate.details, HasSubstr("RetryInfo"));
  const Outcome quota = refuse_with(ResourceExhausted("request_too_large", "too large"));
  EXPECT_EQ(quota.code, 8);
  EXPECT_THAT(quota.details, Not(HasSubstr("RetryInfo")));
  const Outcome bad =
      refuse_with(InvalidArgument("context_length_exceeded", "600 tokens").WithParam("input[3]"));
  EXPECT_EQ(bad.code, kInvalid);
  EXPECT_THAT(bad.details, HasSubstr("texts[3]"));
  EXPECT_THAT(bad.details, HasSubstr("context_length_exceeded"));
  // The text of an internal error is not sent to clients.
  const Outcome internal = refuse_with(Internal("at 0x7fff, /etc/passwd"));
  EXPECT_EQ(internal.code, 13);
  EXPECT_THAT(internal.message, Not(HasSubstr("passwd")));
  EXPECT_EQ(refuse_with(Status(StatusCode::kDeadlineExceeded, "deadline_exceeded", "late")).code,
            kLate);
}

}  // namespace
}  // namespace tutti::rpc
