// The door behind a certificate.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "doors/grpc/testing/small_calls.h"
#include "doors/sockets/testing/certificate.h"

namespace tutti::rpc {
namespace {

using sockets::testing::MakeCertificate;
using testing::CallOptions;
using testing::GrpcDoorTest;
using testing::kTutti;
using testing::OneText;
using testing::Outcome;
using testing::TestClient;

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(GrpcDoorTest, TheSameCallsAreThereBehindACertificate) {
  const support::TempFolder folder;
  const auto pem = MakeCertificate(folder, "a");
  GrpcOptions options;
  options.tls_cert_file = pem.cert;
  options.tls_key_file = pem.key;
  StartDoor(options);
  EXPECT_EQ(door_->address(), "grpcs://127.0.0.1:" + std::to_string(door_->port()));
  TestClient secure(door_->port(), TextOf(pem.cert));
  v1::EmbedResponse response;
  const Outcome outcome = secure.Unary(kTutti + "Embed", OneText(), &response);
  EXPECT_TRUE(outcome.ok()) << outcome.message;
  CallOptions impatient;
  impatient.timeout = std::chrono::milliseconds(500);
  EXPECT_FALSE(Embed(impatient).ok());  // a client that speaks no TLS
}

TEST_F(GrpcDoorTest, FilesThatAreNoCertificateAreToldAtStart) {
  const support::TempFolder folder;
  const auto a = MakeCertificate(folder, "a"), b = MakeCertificate(folder, "b");
  const auto start = [&](const std::string& cert, const std::string& key) {
    GrpcOptions options;
    options.port = 0;
    options.tls_cert_file = cert;
    options.tls_key_file = key;
    auth::testing::OneKey known;
    GrpcDoor door(options, {&inference_, &known.authority(), &inference_, nullptr, nullptr, nullptr,
                            &clock_});
    return door.Start().reason();
  };
  EXPECT_EQ(start(a.cert, a.key), "");
  EXPECT_EQ(start(folder.File("none"), a.key), "invalid_value");
  EXPECT_EQ(start(a.cert, folder.File("none")), "invalid_value");
  EXPECT_EQ(start(a.key, a.cert), "invalid_value");
  EXPECT_EQ(start(a.cert, b.key), "invalid_value");
}

}  // namespace
}  // namespace tutti::rpc
