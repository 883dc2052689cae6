// The same over TLS and WebSocket.
#include <gtest/gtest.h>

#include "server/access/testing/certificate.h"
#include "server/mqtt/listener/testing/listener_fixture.h"

namespace tutti::mqtt::listener::testing {
namespace {

class ListenerTransportTest : public ListenerFixture {
 protected:
  ListenerOptions WithTls(const std::string& name = "server") {
    const auto files = access::testing::MakeCertificate(folder_, name);
    ListenerOptions options;
    options.tls_cert_file = files.cert;
    options.tls_key_file = files.key;
    return options;
  }
  // A round trip, larger than any buffer on the way.
  void ExpectEcho(std::unique_ptr<Wire> wire, Version version) {
    SocketClient client(std::move(wire), version);
    ASSERT_EQ(client.Connect("alice", "c"), ReasonCode::kSuccess);
    ASSERT_EQ(client.Subscribe("llm/v1/alice/+/out"), ReasonCode::kGrantedQos1);
    for (const size_t size : {1u, 100u, 100'000u}) {
      const std::string text(size, 'x');
      client.Send(mqtt::Publish{.topic = "llm/v1/alice/s/in", .payload = text});
      const auto answer = client.Next<mqtt::Publish>();
      ASSERT_TRUE(answer.has_value()) << size;
      EXPECT_EQ(answer->payload, text);
      client.Send(Puback{.packet_id = answer->packet_id});
    }
    client.Send(Disconnect());
    EXPECT_TRUE(client.WaitClosed());
  }
  const support::TempFolder folder_;
};

TEST_F(ListenerTransportTest, TlsCarriesBothVersions) {
  StartListener(WithTls());
  for (const Version version : {Version::k311, Version::k5}) {
    ExpectEcho(std::make_unique<TlsWire>(port()), version);
  }
}

TEST_F(ListenerTransportTest, PlainBytesOnTheTlsPortAreClosed) {
  StartListener(WithTls());
  SocketClient plain(port(), Version::k5);
  plain.Send(mqtt::Connect{.client_id = "c"});
  EXPECT_TRUE(plain.WaitClosed());
}

TEST_F(ListenerTransportTest, AClientsCertificateIsShownToWhoAuthenticates) {
  const access::testing::ClientCertificates clients(folder_);
  ListenerOptions options = WithTls();
  options.tls_client_ca_file = clients.authority.cert;
  StartListener(options);
  const auto connect = [&](Version version, const access::testing::CertificatePaths* own) {
    SocketClient client(std::make_unique<TlsWire>(port(), own), version);
    const ReasonCode code = client.Connect(mqtt::Connect{.client_id = "c"});
    if (code != ReasonCode::kSuccess)
      return std::string(code == ReasonCode::kUnspecified ? "no answer" : "refused");
    EXPECT_EQ(client.Subscribe("llm/v1/ann/+/out"), ReasonCode::kGrantedQos1);
    return std::string("ann");
  };
  for (const Version version : {Version::k311, Version::k5}) {
    EXPECT_EQ(connect(version, &clients.ann), "ann");
    EXPECT_EQ(connect(version, nullptr), "refused");
    for (const auto* const wrong : clients.Refused())
      EXPECT_EQ(connect(version, wrong), "no answer") << wrong->cert;
  }
  log_.Flush();
  EXPECT_NE(lines_->Joined().find("tls.handshake_failed"), std::string::npos);
  EXPECT_NE(lines_->Joined().find("certificate verify failed"), std::string::npos);
  for (const char* const word : {"others", "CN=", "BEGIN"})
    EXPECT_EQ(lines_->Joined().find(word), std::string::npos) << word;
  options.tls_client_required = true;
  StartListener(options);
  EXPECT_EQ(connect(Version::k5, &clients.ann), "ann");
  EXPECT_EQ(connect(Version::k5, nullptr), "no answer");
}

TEST_F(ListenerTransportTest, WebSocketCarriesBothVersions) {
  StartListener();
  for (const Version version : {Version::k311, Version::k5}) {
    auto wire = std::make_unique<WebSocketWire>(listener_->websocket_port(), "/mqtt", "mqtt");
    ASSERT_TRUE(wire->accepted());
    EXPECT_EQ(wire->protocol(), "mqtt");
    ExpectEcho(std::move(wire), version);
  }
}

TEST_F(ListenerTransportTest, PacketsMaySpanWebSocketMessagesAndShareThem) {
  StartListener();
  auto owned = std::make_unique<WebSocketWire>(listener_->websocket_port(), "/mqtt", "v0, mqtt");
  WebSocketWire& wire = *owned;
  SocketClient client(std::move(owned), Version::k5);
  const std::string bytes = *Encode(Version::k5, mqtt::Connect{.client_id = "c",
                                                               .user_name = "alice",
                                                               .password = "secret of alice"}) +
                            *Encode(Version::k5, Pingreq()) + *Encode(Version::k5, Pingreq());
  for (size_t at = 0; at < bytes.size(); at += 7) wire.Send(bytes.substr(at, 7));
  EXPECT_TRUE(client.Next<Connack>().has_value());
  EXPECT_TRUE(client.Next<Pingresp>().has_value());
  EXPECT_TRUE(client.Next<Pingresp>().has_value());
}

TEST_F(ListenerTransportTest, TextMessagesCarryNoMqtt) {
  StartListener();
  WebSocketWire wire(listener_->websocket_port(), "/mqtt", "mqtt");
  ASSERT_TRUE(wire.accepted());
  wire.SendText(std::string("\x10\0", 2));
  std::string ignored;
  while (!wire.closed() && wire.Fill(ignored, kPatienceMs)) {
  }
  EXPECT_TRUE(wire.closed());
}

TEST_F(ListenerTransportTest, UpgradesThatAreNotForMqttAreRefusedInHttp) {
  StartListener();
  const auto status = [&](const std::string& path, const std::string& protocol) {
    WebSocketWire wire(listener_->websocket_port(), path, protocol);
    EXPECT_FALSE(wire.accepted());
    return wire.status();
  };
  EXPECT_EQ(status("/", "mqtt"), 404);
  EXPECT_EQ(status("/mqtt?token=secret", "mqtt"), 404);
  EXPECT_EQ(status("/mqtt", ""), 400);
  EXPECT_EQ(status("/mqtt", "mqttv3.1"), 400);
  TcpWire plain(listener_->websocket_port());
  plain.Send("GET /mqtt HTTP/1.1\r\nHost: localhost\r\n\r\n");
  std::string answer;
  while (plain.Fill(answer, kPatienceMs)) {
  }
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 426 ")) << answer;
}

// A browser opens WebSockets for pages of any origin, and for names made to point at this machine:
// both were let in, and an open server served them.
TEST_F(ListenerTransportTest, PagesAndNamesThatHttpRefusesOpenNoWebSocket) {
  ListenerOptions options;
  options.cors_origins = {"https://app.example"};
  options.allowed_hosts = {"tutti.internal"};
  StartListener(options);
  const auto status = [&](const std::string& fields) {
    TcpWire wire(listener_->websocket_port());
    wire.Send("GET /mqtt HTTP/1.1\r\n" + fields +
              "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
              "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n"
              "\r\n");
    std::string answer;
    while (answer.find("\r\n") == std::string::npos && wire.Fill(answer, kPatienceMs)) {
    }
    return answer.substr(0, 12);
  };
  EXPECT_EQ(status("Host: evil.example\r\n"), "HTTP/1.1 403");
  EXPECT_EQ(status("Host: localhost\r\nOrigin: http://evil.example\r\n"), "HTTP/1.1 403");
  EXPECT_EQ(status("Host: localhost\r\nOrigin: null\r\n"), "HTTP/1.1 403");
  EXPECT_EQ(status("Host: evil.example\r\nOrigin: http://evil.example\r\n"), "HTTP/1.1 403");
  EXPECT_EQ(status("Host: a b\r\n"), "HTTP/1.1 400");
  EXPECT_EQ(status("Host: localhost\r\nHost: evil.example\r\n"), "HTTP/1.1 400");
  const std::string own = "Origin: https://app.example\r\n";
  EXPECT_EQ(status("Host: localhost\r\n" + own + own), "HTTP/1.1 400");
  EXPECT_EQ(status("Host: localhost\r\n" + own), "HTTP/1.1 101");
  EXPECT_EQ(status("Host: tutti.internal:443\r\n"), "HTTP/1.1 101");
  EXPECT_EQ(status("Host: localhost:9\r\nOrigin: http://localhost:9\r\n"), "HTTP/1.1 101");
  EXPECT_EQ(status("Host: 127.0.0.1\r\n"), "HTTP/1.1 101");
}

// Regression: the client got a reset without a reason.
TEST_F(ListenerTransportTest, AWebSocketThatAsksWithTooManyBytesIsToldSo) {
  StartListener();
  TcpWire wire(listener_->websocket_port());
  wire.Send("GET /mqtt HTTP/1.1\r\nHost: localhost\r\nX-Long: " + std::string(40'000, 'x') +
            "\r\n\r\n");
  std::string answer;
  while (wire.Fill(answer, kPatienceMs)) {
  }
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 431 ")) << answer;
}

TEST_F(ListenerTransportTest, FilesThatDoNotFitAreNamedAtStart) {
  const ListenerOptions one = WithTls("one"), other = WithTls("other");
  const auto start = [&](const std::string& cert, const std::string& key) {
    ListenerOptions options;
    options.port = 0;
    options.tls_cert_file = cert;
    options.tls_key_file = key;
    Listener listener(options, {&authenticator_, nullptr, &clock_});
    return listener.Start();
  };
  EXPECT_TRUE(start(one.tls_cert_file, one.tls_key_file).ok());
  EXPECT_EQ(start(one.tls_cert_file + ".none", one.tls_key_file).param(), "tls-cert");
  EXPECT_EQ(start(one.tls_cert_file, other.tls_key_file).param(), "tls-key");
}

}  // namespace
}  // namespace tutti::mqtt::listener::testing
