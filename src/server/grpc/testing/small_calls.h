// Small calls for tests of the server itself: a text to embed, a health check.
#pragma once

#include <grpc/health/v1/health.pb.h>
#include <tutti/v1/tutti.pb.h>

#include <string>

#include "server/grpc/testing/server_fixture.h"

namespace tutti::rpc::testing {

// Codes of gRPC.
inline constexpr int kCancelled = 1, kInvalid = 3, kLate = 4, kNotFound = 5, kUnavailable = 14,
                     kUnauthenticated = 16;
inline const std::string kHealth = "/grpc.health.v1.Health/";

inline ::grpc::health::v1::HealthCheckRequest About(const std::string& service) {
  ::grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  return request;
}

inline v1::EmbedRequest OneText(const std::string& text = "a") {
  v1::EmbedRequest request;
  request.add_texts(text);
  return request;
}

class GrpcServerTest : public ServerTest {
 protected:
  Outcome Embed(const CallOptions& options = {}) {
    v1::EmbedResponse response;
    return client_->Unary(kTutti + "Embed", OneText(), &response, options);
  }
  // SERVING 1, NOT_SERVING 2; minus the code of an error.
  int Check(const std::string& service, const CallOptions& options = {}) {
    ::grpc::health::v1::HealthCheckResponse response;
    const Outcome outcome = client_->Unary(kHealth + "Check", About(service), &response, options);
    return outcome.ok() ? static_cast<int>(response.status()) : -outcome.code;
  }
};

}  // namespace tutti::rpc::testing
