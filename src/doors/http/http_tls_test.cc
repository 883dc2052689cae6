// TLS: the same routes behind a certificate, versions below 1.2 refused, files checked at start.
#include <gtest/gtest.h>

#include "doors/http/testing/door_fixture.h"
#include "doors/sockets/testing/certificate.h"
#include "doors/sockets/testing/tls_session.h"

namespace tutti::http::testing {
namespace {

class TlsClient {
 public:
  explicit TlsClient(int port, int max_version = 0) : tcp_(port), tls_(tcp_.fd(), max_version) {}

  bool connected() const { return tls_.connected(); }
  void Send(const std::string& bytes) { tls_.Send(bytes); }
  std::string ReadUntil(const std::string& text) {
    std::string all;
    while (all.find(text) == std::string::npos && tls_.Fill(all)) {
    }
    return all;
  }
  bool EndsCleanly() { return tls_.EndsCleanly(); }

 private:
  RawClient tcp_;
  sockets::testing::TlsSession tls_;
};

class TlsTest : public DoorTest {
 protected:
  HttpOptions WithTls() {
    const auto files = sockets::testing::MakeCertificate(folder_, "door");
    HttpOptions options;
    options.tls_cert_file = files.cert;
    options.tls_key_file = files.key;
    return options;
  }
  const support::TempFolder folder_;
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
  const auto one = sockets::testing::MakeCertificate(folder_, "one");
  const auto other = sockets::testing::MakeCertificate(folder_, "other");
  EXPECT_TRUE(start(one.cert, one.key).ok());
  EXPECT_EQ(start(one.cert + ".none", one.key).param(), "tls-cert");
  EXPECT_EQ(start(one.cert, other.key).param(), "tls-key");
}

}  // namespace
}  // namespace tutti::http::testing
