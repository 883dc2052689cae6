// A gRPC server over a FakeInference and the test models, on a free loopback port, for one test.
#pragma once

#include <gtest/gtest.h>
#include <inference/grpc_service.pb.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cpu_time.h"
#include "protocol/kserve/testing/fake_models.h"
#include "server/grpc/grpc_server.h"
#include "server/grpc/testing/test_client.h"
#include "services/auth/testing/one_key.h"

namespace tutti::rpc::testing {

inline const int kPatienceMs = support::kSlower > 1 ? 60'000 : 10'000;
inline const std::string kInference = "/inference.GRPCInferenceService/";
inline const std::string kTutti = "/tutti.v1.Tutti/";

class LogLines final : public Logger::Sink {
 public:
  void Line(std::string_view line) override {
    const std::lock_guard lock(mutex_);
    lines_.emplace_back(line);
  }
  std::string Joined() {
    const std::lock_guard lock(mutex_);
    std::string all;
    for (const std::string& line : lines_) all += line + "\n";
    return all;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

class ServerTest : public ::testing::Test {
 protected:
  // `key`: empty = no key is required.
  void StartServer(GrpcOptions options = {}, const std::string& key = "") {
    options.port = 0;
    known_ = std::make_unique<auth::testing::OneKey>(key, !options.tls_client_ca_file.empty());
    servers_ = std::make_unique<telemetry::ServerMetrics>(metrics_);
    repository_ = std::make_unique<kserve::Repository>(
        kserve::RepositoryOptions{.server_version = "1.2.3", .test_models = true},
        kserve::Repository::Dependencies{&inference_, &inference_, &clock_});
    server_ = std::make_unique<GrpcServer>(
        std::move(options),
        GrpcServer::Dependencies{&inference_, &known_->authority(), &inference_, repository_.get(),
                                 servers_.get(), &log_, &clock_});
    const Status status = server_->Start();
    ASSERT_TRUE(status.ok()) << status;
    client_ = std::make_unique<TestClient>(server_->port());
  }
  void TearDown() override {
    client_.reset();
    if (server_ != nullptr) server_->Stop();
  }

  template <typename Predicate>
  static bool Eventually(Predicate done, int timeout_ms = kPatienceMs) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    while (!done()) {
      if (std::chrono::steady_clock::now() >= end) return false;
      usleep(1000);
    }
    return true;
  }

  // A request to `simple` with sixteen numbers each.
  static inference::ModelInferRequest Simple(int first = 0, const std::string& id = "") {
    inference::ModelInferRequest request;
    request.set_model_name("simple");
    request.set_id(id);
    for (const char* const name : {"INPUT0", "INPUT1"}) {
      auto& input = *request.add_inputs();
      input.set_name(name);
      input.set_datatype("INT32");
      input.add_shape(1);
      input.add_shape(16);
      std::string raw;
      for (int i = 0; i < 16; ++i) {
        kserve::AppendElement(static_cast<int32_t>(request.inputs_size() == 1 ? first + i : 1),
                              &raw);
      }
      request.add_raw_input_contents(raw);
    }
    return request;
  }
  static inference::ModelInferRequest TextRequest(const std::string& model,
                                                  const std::string& input,
                                                  const std::vector<std::string>& texts,
                                                  const std::string& id = "") {
    inference::ModelInferRequest request;
    request.set_model_name(model);
    request.set_id(id);
    auto& tensor = *request.add_inputs();
    tensor.set_name(input);
    tensor.set_datatype("BYTES");
    tensor.add_shape(static_cast<int64_t>(texts.size()));
    std::string raw;
    for (const std::string& text : texts) kserve::AppendBytesElement(text, &raw);
    request.add_raw_input_contents(raw);
    return request;
  }
  Outcome Infer(const inference::ModelInferRequest& request,
                inference::ModelInferResponse* response = nullptr,
                const CallOptions& options = {}) {
    inference::ModelInferResponse ignored;
    return client_->Unary(kInference + "ModelInfer", request,
                          response == nullptr ? &ignored : response, options);
  }

  SteadyClock clock_;
  telemetry::MetricsRegistry metrics_;
  std::shared_ptr<LogLines> lines_ = std::make_shared<LogLines>();
  Logger log_{LogLevel::kInfo, lines_};
  kserve::testing::FakeInference inference_{kserve::testing::FakeModels()};
  std::unique_ptr<telemetry::ServerMetrics> servers_;
  std::unique_ptr<kserve::Repository> repository_;
  std::unique_ptr<auth::testing::OneKey> known_;
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<TestClient> client_;
};

}  // namespace tutti::rpc::testing
