// Drain and stop.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "server/grpc/testing/small_calls.h"

namespace tutti::rpc {
namespace {

using ::grpc::health::v1::HealthCheckResponse;
using kserve::testing::FakeEncoding;
using testing::About;
using testing::CallOptions;
using testing::GrpcServerTest;
using testing::kHealth;
using testing::kInference;
using testing::kTutti;
using testing::kUnavailable;
using testing::OneText;
using testing::TestClient;

TEST_F(GrpcServerTest, ADrainLetsCallsFinishAndTakesNoOthers) {
  StartServer();
  inference_.on_encode = [](const std::shared_ptr<FakeEncoding>&) { return OkStatus(); };
  const auto running = client_->Start(kTutti + "Embed");
  ASSERT_TRUE(running->Write(OneText()));
  ASSERT_NE(inference_.Encoding(0), nullptr);
  const auto watch = client_->Start(kHealth + "Watch");
  ASSERT_TRUE(watch->Write(About("")));
  HealthCheckResponse status;
  ASSERT_TRUE(watch->Read(&status));
  const auto idle = client_->Start(kInference + "ModelStreamInfer");
  ASSERT_TRUE(idle->Write(Simple()));
  ASSERT_TRUE(idle->Read(nullptr));
  std::atomic<bool> clean{false}, drained{false};
  std::thread drain([&] {
    clean = server_->Drain(std::chrono::seconds(60));
    drained = true;
  });
  ASSERT_TRUE(watch->Read(&status));
  EXPECT_EQ(status.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_FALSE(watch->Read(&status));
  EXPECT_EQ(watch->Finish().code, kUnavailable);
  EXPECT_FALSE(idle->Read(nullptr));
  EXPECT_EQ(idle->Finish().Trailer("tutti-error-code"), "draining");
  usleep(50'000);
  EXPECT_FALSE(drained.load());
  CallOptions impatient;
  impatient.timeout = std::chrono::milliseconds(300);
  EXPECT_FALSE(
      TestClient(server_->port()).Unary(kTutti + "Embed", OneText(), nullptr, impatient).ok());
  inference_.Encoding(0)->Answer();
  v1::EmbedResponse response;
  EXPECT_TRUE(running->Read(&response));
  EXPECT_TRUE(running->Finish().ok());
  drain.join();
  EXPECT_TRUE(clean.load());
}

TEST_F(GrpcServerTest, ADrainThatTakesTooLongCancels) {
  StartServer();
  inference_.on_encode = [](const std::shared_ptr<FakeEncoding>&) { return OkStatus(); };
  const auto running = client_->Start(kTutti + "Embed");
  ASSERT_TRUE(running->Write(OneText()));
  ASSERT_NE(inference_.Encoding(0), nullptr);
  EXPECT_FALSE(server_->Drain(std::chrono::milliseconds(200)));
  EXPECT_TRUE(inference_.Encoding(0)->cancelled.load());
  EXPECT_FALSE(running->Finish().ok());
}

TEST_F(GrpcServerTest, StopEndsWhatRunsAndMayComeTwice) {
  StartServer();
  inference_.on_encode = [](const std::shared_ptr<FakeEncoding>&) { return OkStatus(); };
  const auto running = client_->Start(kTutti + "Embed");
  ASSERT_TRUE(running->Write(OneText()));
  const auto encoding = inference_.Encoding(0);
  ASSERT_NE(encoding, nullptr);
  server_->Stop();
  EXPECT_TRUE(encoding->cancelled.load());
  encoding->Answer();  // too late: no thread is woken
  server_->Stop();
  EXPECT_FALSE(running->Finish().ok());
}

}  // namespace
}  // namespace tutti::rpc
