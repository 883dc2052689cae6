// Limits of the library and the acceptor: connections, metadata, and clients that do not read.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "server/grpc/testing/small_calls.h"

namespace tutti::rpc {
namespace {

using kserve::testing::FakeEncoding;
using testing::CallOptions;
using ::testing::ContainsRegex;
using testing::GrpcServerTest;
using ::testing::HasSubstr;
using testing::kInference;
using testing::kTutti;
using testing::kUnavailable;
using testing::OneText;
using testing::TestClient;

// A blocking TCP connection without HTTP/2.
class RawConnection {
 public:
  explicit RawConnection(int port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawConnection() { close(fd_); }
  bool connected() const { return connected_; }
  void Send(const std::string& bytes) {
    (void)!send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Whether the other side closes within the time.
  bool Closed(int timeout_ms) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    while (true) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
                            end - std::chrono::steady_clock::now())
                            .count();
      pollfd p{fd_, POLLIN, 0};
      if (left <= 0 || poll(&p, 1, static_cast<int>(left)) <= 0) return false;
      char bytes[4096];
      if (recv(fd_, bytes, sizeof bytes, 0) <= 0) return true;
    }
  }

 private:
  const int fd_;
  bool connected_ = false;
};

bool Live(TestClient& client, int timeout_ms) {
  CallOptions call;
  call.timeout = std::chrono::milliseconds(timeout_ms);
  inference::ServerLiveResponse response;
  return client.Unary(kInference + "ServerLive", inference::ServerLiveRequest(), &response, call)
      .ok();
}

TEST_F(GrpcServerTest, ConnectionsAreBoundedAndOneThatEndsMakesRoom) {
  GrpcOptions options;
  options.limits.connections = 3;
  StartServer(options);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<TestClient>(server_->port()));
    EXPECT_TRUE(Live(*clients.back(), testing::kPatienceMs));
  }
  EXPECT_EQ(server_->open_connections(), 3);
  TestClient fourth(server_->port());
  EXPECT_FALSE(Live(fourth, 300));
  clients.pop_back();
  EXPECT_TRUE(Eventually([&] { return Live(fourth, 1000); }));
  // A connection that was refused may be counted off later than the one that took its place.
  EXPECT_TRUE(Eventually([&] { return server_->open_connections() == 3; }));
}

TEST_F(GrpcServerTest, AConnectionThatSpeaksNoHttp2IsClosed) {
  GrpcOptions options;
  options.limits.handshake = std::chrono::milliseconds(300);
  StartServer(options);
  RawConnection wrong(server_->port()), half(server_->port()), silent(server_->port());
  ASSERT_TRUE(wrong.connected());
  wrong.Send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  half.Send("PRI * HTTP/2.0\r\n");
  EXPECT_TRUE(wrong.Closed(testing::kPatienceMs));
  EXPECT_TRUE(half.Closed(testing::kPatienceMs));
  EXPECT_TRUE(silent.Closed(testing::kPatienceMs));
  EXPECT_TRUE(Embed().ok());
  EXPECT_TRUE(Eventually([&] { return server_->open_connections() == 1; }));
}

class GrpcAbuseTest : public GrpcServerTest {
 protected:
  void StartAndAbuse(Duration penalty) {
    GrpcOptions options;
    options.limits.abuse.calls = 3;
    options.limits.penalties = {.first = penalty, .most = penalty};
    StartServer(options);
    second_client_ = std::make_unique<TestClient>(server_->port());
    EXPECT_TRUE(Live(*second_client_, testing::kPatienceMs));
    for (int i = 0; i < 4; ++i) calls_.push_back(client_->Start(kTutti + "Embed"));
    EXPECT_TRUE(Eventually(
        [&] { return lines_->Joined().find("grpc.connection_reset") != std::string::npos; }));
  }

  std::unique_ptr<TestClient> second_client_;
  std::vector<std::unique_ptr<testing::TestCall>> calls_;
};

TEST_F(GrpcAbuseTest, AfterwardsNewConnectionsOfTheAddressWaitAndOpenOnesDoNot) {
  StartAndAbuse(std::chrono::seconds(2));
  TestClient late(server_->port());
  EXPECT_FALSE(Live(late, 300));
  EXPECT_TRUE(Live(*second_client_, testing::kPatienceMs));
  EXPECT_TRUE(Live(late, testing::kPatienceMs));
}

TEST_F(GrpcAbuseTest, ConnectionsThatWaitAreClosedWhenTheServerDrains) {
  StartAndAbuse(std::chrono::hours(1));
  // The client that was reset would connect again, and its old connection ends at any moment.
  calls_.clear();
  client_.reset();
  EXPECT_TRUE(Eventually([&] { return server_->open_connections() == 1; }));
  RawConnection held(server_->port());
  EXPECT_TRUE(Eventually([&] { return server_->open_connections() == 2; }));
  EXPECT_FALSE(held.Closed(100));
  server_->Drain(std::chrono::seconds(1));
  EXPECT_TRUE(held.Closed(testing::kPatienceMs));
}

TEST_F(GrpcAbuseTest, AConnectionResetForAbuseIsLoggedAndCounted) {
  StartAndAbuse(std::chrono::milliseconds(1));
  EXPECT_THAT(lines_->Joined(),
              ContainsRegex("WARN grpc.connection_reset peer=ipv4:127.0.0.1:[0-9]+ why=calls "
                            "suppressed=0\n"));
  EXPECT_THAT(metrics_.Expose(),
              HasSubstr("tutti_connections_reset_total{door=\"grpc\",server=\"grpc\"} "));
}

TEST_F(GrpcServerTest, MetadataIsBounded) {
  StartServer();
  CallOptions options;
  options.metadata = {{"x-large", std::string(40 << 10, 'a')}};
  // Refused by the client once it has seen the server's settings; before, the connection goes.
  const int code = Embed(options).code;
  EXPECT_TRUE(code == 8 || code == kUnavailable) << code;
  options.metadata = {{"x-large", std::string(10 << 10, 'a')}};
  EXPECT_TRUE(Eventually([&] { return Embed(options).ok(); }));
  EXPECT_EQ(inference_.encodings(), 1u);
}

TEST_F(GrpcServerTest, AReaderThatTakesNothingIsGivenUp) {
  GrpcOptions options;
  options.limits.reader_stall = std::chrono::milliseconds(200);
  StartServer(options);
  v1::GenerateRequest request;
  request.set_prompt("x");
  const auto call = client_->Start(kTutti + "Generate");
  ASSERT_TRUE(call->Write(request));
  const auto generation = inference_.Generation(0);
  generation->Started();
  for (int i = 0; i < 200; ++i) {
    generation->Token(std::string(4096, 'x'));
    generation->Wake();
  }
  EXPECT_TRUE(Eventually([&] { return generation->cancelled.load(); }, 30'000));
}

}  // namespace
}  // namespace tutti::rpc
