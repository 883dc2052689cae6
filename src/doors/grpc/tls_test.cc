// The door behind a certificate.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "doors/grpc/testing/small_calls.h"
#include "temp_folder.h"

namespace tutti::rpc {
namespace {

using testing::CallOptions;
using testing::GrpcDoorTest;
using testing::kTutti;
using testing::OneText;
using testing::Outcome;
using testing::TestClient;

struct Pem {
  std::string cert, key, text;
};

Pem MakeCertificate(const support::TempFolder& folder, const std::string& name) {
  Pem pem{folder.File(name + ".crt"), folder.File(name + ".key"), ""};
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* cert = X509_new();
  X509_set_version(cert, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
  X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
  X509_set_pubkey(cert, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(cert, X509_get_subject_name(cert));
  X509_EXTENSION* names =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "DNS:localhost");
  X509_add_ext(cert, names, -1);
  X509_EXTENSION_free(names);
  X509_sign(cert, key, EVP_sha256());
  FILE* out = std::fopen(pem.cert.c_str(), "w");
  PEM_write_X509(out, cert);
  std::fclose(out);
  out = std::fopen(pem.key.c_str(), "w");
  PEM_write_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(out);
  X509_free(cert);
  EVP_PKEY_free(key);
  std::ifstream file(pem.cert);
  pem.text.assign(std::istreambuf_iterator<char>(file), {});
  return pem;
}

TEST_F(GrpcDoorTest, TheSameCallsAreThereBehindACertificate) {
  const support::TempFolder folder;
  const Pem pem = MakeCertificate(folder, "a");
  GrpcOptions options;
  options.tls_cert_file = pem.cert;
  options.tls_key_file = pem.key;
  StartDoor(options);
  EXPECT_EQ(door_->address(), "grpcs://127.0.0.1:" + std::to_string(door_->port()));
  TestClient secure(door_->port(), pem.text);
  v1::EmbedResponse response;
  const Outcome outcome = secure.Unary(kTutti + "Embed", OneText(), &response);
  EXPECT_TRUE(outcome.ok()) << outcome.message;
  CallOptions impatient;
  impatient.timeout = std::chrono::milliseconds(500);
  EXPECT_FALSE(Embed(impatient).ok());  // a client that speaks no TLS
}

TEST_F(GrpcDoorTest, FilesThatAreNoCertificateAreToldAtStart) {
  const support::TempFolder folder;
  const Pem a = MakeCertificate(folder, "a"), b = MakeCertificate(folder, "b");
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
