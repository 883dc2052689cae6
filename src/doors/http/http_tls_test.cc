// TLS: the same routes behind a certificate, versions below 1.2 refused, files checked at start.
#include <gtest/gtest.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <cstdio>
#include <fstream>

#include "doors/http/testing/door_fixture.h"
#include "temp_folder.h"

namespace tutti::http::testing {
namespace {

struct Files {
  std::string cert, key;
};

// A self-signed certificate for localhost.
Files MakeCertificate(const std::string& name) {
  static const support::TempFolder folder;
  const Files files = {folder.File(name + ".crt"), folder.File(name + ".key")};
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* cert = X509_new();
  X509_set_version(cert, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
  X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
  X509_set_pubkey(cert, key);
  X509_NAME* subject = X509_get_subject_name(cert);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(cert, subject);
  X509_sign(cert, key, EVP_sha256());
  FILE* out = std::fopen(files.cert.c_str(), "w");
  PEM_write_X509(out, cert);
  std::fclose(out);
  out = std::fopen(files.key.c_str(), "w");
  PEM_write_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(out);
  chmod(files.key.c_str(), 0600);
  X509_free(cert);
  EVP_PKEY_free(key);
  return files;
}

class TlsClient {
 public:
  TlsClient(int port, int max_version = 0)
      : tcp_(port), context_(SSL_CTX_new(TLS_client_method())) {
    if (max_version != 0) {
      SSL_CTX_set_security_level(context_, 0);
      SSL_CTX_set_max_proto_version(context_, max_version);
    }
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, tcp_.fd());
    connected_ = SSL_connect(ssl_) == 1;
  }
  ~TlsClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  bool connected() const { return connected_; }
  void Send(const std::string& bytes) {
    SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()));
  }
  std::string ReadUntil(const std::string& text) {
    std::string all;
    char buffer[4096];
    while (all.find(text) == std::string::npos) {
      const int got = SSL_read(ssl_, buffer, sizeof buffer);
      if (got <= 0) break;
      all.append(buffer, static_cast<size_t>(got));
    }
    return all;
  }
  // The peer said goodbye before it closed.
  bool EndsCleanly() {
    char byte;
    const int got = SSL_read(ssl_, &byte, 1);
    return got == 0 && SSL_get_error(ssl_, got) == SSL_ERROR_ZERO_RETURN;
  }

 private:
  RawClient tcp_;
  SSL_CTX* context_;
  SSL* ssl_ = nullptr;
  bool connected_ = false;
};

class TlsTest : public DoorTest {
 protected:
  HttpOptions WithTls() {
    const Files files = MakeCertificate("door");
    HttpOptions options;
    options.tls_cert_file = files.cert;
    options.tls_key_file = files.key;
    return options;
  }
};

TEST_F(TlsTest, StreamsLikeWithoutIt) {
  inference_.on_generate = [](const auto& generation) {
    generation->Answer({"over ", "TLS"});
    return OkStatus();
  };
  StartDoor(WithTls());
  EXPECT_TRUE(door_->address().starts_with("https://"));
  TlsClient client(port());
  ASSERT_TRUE(client.connected());
  client.Send(Post("/v1/chat/completions", kChatStreamBody));
  const std::string answer = client.ReadUntil("[DONE]");
  EXPECT_NE(answer.find("over "), std::string::npos);
  client.Send(Get("/livez", "Connection: close\r\n"));
  EXPECT_NE(client.ReadUntil("{\"status\":\"ok\"}").find("200 OK"), std::string::npos);
  EXPECT_TRUE(client.EndsCleanly());
}

TEST_F(TlsTest, OldVersionsAndPlainTextAreRefused) {
  StartDoor(WithTls());
  EXPECT_FALSE(TlsClient(port(), TLS1_1_VERSION).connected());
  EXPECT_TRUE(TlsClient(port(), TLS1_2_VERSION).connected());
  RawClient plain(port());
  plain.Send(Get("/livez"));
  EXPECT_EQ(plain.ReadAll().find("HTTP/"), std::string::npos);
  EXPECT_TRUE(TlsClient(port()).connected()) << "and the next client is served";
}

// A client set up for plain HTTP, or one that does not trust the certificate, left no trace.
TEST_F(TlsTest, AFailedHandshakeIsLoggedAndManyOfThemAreCounted) {
  StartDoor(WithTls());
  for (int i = 0; i < 20; ++i) {
    RawClient plain(port());
    plain.Send(Get("/livez"));
    plain.WaitClosed(3000);
  }
  const auto lines = [&] {
    log_.Flush();
    const std::string all = lines_->Joined();
    size_t count = 0;
    for (size_t at = 0; (at = all.find("tls.handshake_failed", at)) != std::string::npos; ++at)
      ++count;
    return count;
  };
  ASSERT_TRUE(Eventually([&] { return lines() > 0; }));
  EXPECT_NE(lines_->Joined().find("plain HTTP on the TLS port"), std::string::npos)
      << lines_->Joined();
  EXPECT_NE(lines_->Joined().find("127.0.0.1"), std::string::npos);
  EXPECT_LT(lines(), 20u) << "not one for each";
}

TEST_F(TlsTest, AConnectionThatOnlyComesAndGoesLeavesNoLine) {
  StartDoor(WithTls());
  { RawClient probe(port()); }
  ASSERT_TRUE(Eventually([&] { return door_->open_connections() == 0; }));
  log_.Flush();
  EXPECT_EQ(lines_->Joined().find("tls.handshake_failed"), std::string::npos);
}

TEST_F(TlsTest, AClientThatLeavesCancels) {
  StartDoor(WithTls());
  {
    TlsClient client(port());
    client.Send(Post("/v1/chat/completions", kChatBody));
    ASSERT_NE(inference_.Generation(0), nullptr);
  }
  EXPECT_TRUE(Eventually([&] { return inference_.Generation(0)->cancelled.load(); }));
}

TEST_F(TlsTest, AHandshakeThatDoesNotEndIsGivenUp) {
  HttpOptions options = WithTls();
  options.limits.header_time = std::chrono::milliseconds(200);
  StartDoor(options);
  RawClient silent(port()), half(port());
  half.Send(std::string("\x16\x03\x01\x02\x00\x01\x00", 7));
  EXPECT_TRUE(silent.WaitClosed(3000));
  EXPECT_TRUE(half.WaitClosed(3000));
  EXPECT_TRUE(TlsClient(port()).connected());
}

TEST_F(TlsTest, FilesThatDoNotFitAreNamedAtStart) {
  const Files one = MakeCertificate("one"), other = MakeCertificate("other");
  const auto start = [&](const std::string& cert, const std::string& key) {
    HttpOptions options;
    options.port = 0;
    options.tls_cert_file = cert;
    options.tls_key_file = key;
    auth::testing::OneKey known;
    HttpDoor door(options, {&inference_, &known.authority(), &inference_, &metrics_, nullptr, &log_,
                            &clock_});
    return door.Start();
  };
  EXPECT_TRUE(start(one.cert, one.key).ok());
  EXPECT_EQ(start(one.cert + ".none", one.key).param(), "tls-cert");
  EXPECT_EQ(start(one.cert, one.key + ".none").param(), "tls-key");
  EXPECT_EQ(start(one.cert, other.key).param(), "tls-key");
  chmod(one.key.c_str(), 0644);
  EXPECT_EQ(start(one.cert, one.key).param(), "tls-key") << "others can read it";
  chmod(one.key.c_str(), 0600);
  std::ofstream(one.cert) << "no certificate";
  EXPECT_EQ(start(one.cert, one.key).param(), "tls-cert");
}

}  // namespace
}  // namespace tutti::http::testing
