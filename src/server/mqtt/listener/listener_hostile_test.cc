// Clients that do not mean well: before the login, too many, too slow, too fast; memory stays flat.
#include <gtest/gtest.h>
#include <malloc.h>

#include <chrono>
#include <deque>
#include <fstream>

#include "sanitized.h"
#include "server/mqtt/listener/testing/listener_fixture.h"

namespace tutti::mqtt::listener::testing {
namespace {

using std::chrono::milliseconds;

class ListenerHostileTest : public ListenerFixture {};

[[maybe_unused]] int64_t ResidentBytes() {
  int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * 4096;
}

// Growth since `before`. Sanitizers keep freed memory for a while, so there the result is 0.
int64_t Growth(int64_t before) { return support::Sanitized() ? 0 : ResidentBytes() - before; }

std::string ConnectBytes() {
  return *Encode(
      Version::k5,
      mqtt::Connect{.client_id = "c", .user_name = "alice", .password = "secret of alice"});
}

TEST_F(ListenerHostileTest, AnythingButConnectIsClosedAtItsFirstByte) {
  StartListener();
  for (const char first : {'\xC0', '\x30', '\x00', 'G', '\x16', '\x82'}) {
    SocketClient client(port(), Version::k5);
    client.SendBytes(std::string(1, first));
    EXPECT_TRUE(client.WaitClosed()) << static_cast<int>(first);
  }
}

TEST_F(ListenerHostileTest, AMillionPacketsBeforeTheLoginLeaveMemoryFlat) {
  StartListener();
  const std::string pings = [] {
    std::string all;
    for (int i = 0; i < 10'000; ++i) all += std::string("\xC0\0", 2);
    return all;
  }();
  const auto flood = [&](int connections) {
    for (int i = 0; i < connections; ++i) {
      SocketClient client(port(), Version::k5);
      client.SendBytes(pings);  // a reset is an answer too
    }
    EXPECT_TRUE(Eventually([&] { return listener_->connections() == 0; }));
  };
  flood(10);
  const int64_t before = ResidentBytes();
  flood(100);
  EXPECT_LT(Growth(before), 16 << 20);
  SocketClient client(port(), Version::k5);
  EXPECT_EQ(client.Connect("alice", "c"), ReasonCode::kSuccess) << "the server serves as before";
}

TEST_F(ListenerHostileTest, DataAfterConnectWaitsForLoginWithoutMemory) {
  authenticator_.hold = true;
  StartListener();
  SocketClient client(port(), Version::k5);
  client.SendBytes(ConnectBytes());
  ASSERT_TRUE(Eventually([&] { return authenticator_.asked.load() == 1; }));
  const int64_t before = ResidentBytes();
  auto& socket = dynamic_cast<TcpWire&>(client.wire()).socket();
  socket.non_blocking(true);
  const std::string block(65536, '\0');
  size_t sent = 0;
  for (int full = 0; full < 50 && sent < (512u << 20);) {
    boost::system::error_code ec;
    sent += socket.write_some(boost::asio::buffer(block), ec);
    if (!ec) continue;
    ++full;
    std::this_thread::sleep_for(milliseconds(2));
  }
  EXPECT_LT(sent, 64u << 20) << "the kernel's buffers are full";
  EXPECT_LT(Growth(before), 16 << 20);
}

TEST_F(ListenerHostileTest, WhoDoesNotLogInIsClosedInTime) {
  ListenerOptions options;
  options.limits.login_time = milliseconds(200);
  StartListener(options);
  SocketClient silent(port(), Version::k5), half(port(), Version::k5);
  half.SendBytes(ConnectBytes().substr(0, 10));
  SocketClient web(std::make_unique<TcpWire>(listener_->websocket_port()), Version::k5);
  web.SendBytes("GET /mqtt HTTP/1.1\r\nHost:");
  EXPECT_TRUE(silent.WaitClosed());
  EXPECT_TRUE(half.WaitClosed());
  EXPECT_TRUE(web.WaitClosed());
}

TEST_F(ListenerHostileTest, ConnectionsWithoutALoginAreBounded) {
  ListenerOptions options;
  options.limits.logins_per_address = 5;
  StartListener(options);
  authenticator_.hold = true;
  std::deque<SocketClient> waiting;
  for (int i = 0; i < 5; ++i) {
    waiting.emplace_back(port(), Version::k5);
    waiting.back().Send(mqtt::Connect{.version = Version::k5,
                                      .client_id = std::to_string(i),
                                      .user_name = "alice",
                                      .password = "secret of alice"});
  }
  ASSERT_TRUE(Eventually([&] { return authenticator_.asked.load() == 5; }));
  SocketClient sixth(port(), Version::k5);
  EXPECT_TRUE(sixth.WaitClosed());
  authenticator_.hold = false;
  authenticator_.AnswerHeld();
  for (SocketClient& each : waiting) EXPECT_TRUE(each.Next<Connack>().has_value());
  SocketClient seventh(port(), Version::k5);
  EXPECT_EQ(seventh.Connect("bob", "c"), ReasonCode::kSuccess) << "they have logged in";
  seventh.Send(Pingreq());
  EXPECT_TRUE(seventh.Next<Pingresp>().has_value());
}

// Regression: such connections, if renewed, blocked all other clients of their address.
TEST_F(ListenerHostileTest, SilentConnectionsKeepNobodyOut) {
  ListenerOptions options;
  options.limits.logins_per_address = 5;
  StartListener(options);
  std::deque<SocketClient> silent;
  for (int i = 0; i < 8; ++i) silent.emplace_back(port(), Version::k5);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(silent[static_cast<size_t>(i)].WaitClosed()) << "oldest";
  EXPECT_TRUE(Eventually([&] { return listener_->connections() == 5; }));
  SocketClient client(port(), Version::k5);
  EXPECT_EQ(client.Connect("alice", "c"), ReasonCode::kSuccess);
  EXPECT_EQ(silent.back().Connect("bob", "c"), ReasonCode::kSuccess);
}

TEST_F(ListenerHostileTest, BeyondTheMostConnectionsClientsWaitToBeAccepted) {
  ListenerOptions options;
  options.limits.connections = 2;
  StartListener(options);
  auto first = std::make_unique<SocketClient>(port(), Version::k5);
  SocketClient second(port(), Version::k5), third(port(), Version::k5);
  ASSERT_EQ(first->Connect("alice", "1"), ReasonCode::kSuccess);
  ASSERT_EQ(second.Connect("alice", "2"), ReasonCode::kSuccess);
  third.Send(mqtt::Connect{.client_id = "3", .user_name = "alice", .password = "secret of alice"});
  EXPECT_FALSE(third.Next<Connack>(50).has_value());
  first.reset();
  EXPECT_TRUE(third.Next<Connack>().has_value());
}

TEST_F(ListenerHostileTest, APacketAboveTheLimitIsToldBeforeItCame) {
  ListenerOptions options;
  options.limits.packet_bytes = 10'000;
  StartListener(options);
  SocketClient client(port(), Version::k5);
  ASSERT_EQ(client.Connect("alice", "c"), ReasonCode::kSuccess);
  client.SendBytes(std::string("\x30\xFF\xFF\x7F", 4));
  const auto goodbye = client.Next<Disconnect>();
  ASSERT_TRUE(goodbye.has_value());
  EXPECT_EQ(goodbye->reason, ReasonCode::kPacketTooLarge);
  EXPECT_TRUE(client.WaitClosed());
}

TEST_F(ListenerHostileTest, AReaderThatStopsHoldsNobodyUpAndIsDisconnected) {
  ListenerOptions options;
  options.limits.reader_stall = milliseconds(300);
  StartListener(options);
  SocketClient stopped(std::make_unique<TcpWire>(port(), 4096), Version::k5);
  SocketClient reader(port(), Version::k5);
  ASSERT_EQ(stopped.Connect("alice", "stopped"), ReasonCode::kSuccess);
  ASSERT_EQ(reader.Connect("alice", "reader"), ReasonCode::kSuccess);
  ASSERT_EQ(stopped.Subscribe("llm/v1/alice/#"), ReasonCode::kGrantedQos1);
  ASSERT_EQ(reader.Subscribe("llm/v1/alice/#"), ReasonCode::kGrantedQos1);
  const int64_t before = ResidentBytes();
  const std::string text(4000, 'x');
  for (int i = 0; i < 2000; ++i) {
    const Status sent = listener_->Publish({.topic = "llm/v1/alice/s/out", .payload = text});
    ASSERT_TRUE(sent.ok()) << sent;
    ASSERT_TRUE(reader.Next<mqtt::Publish>().has_value()) << i;
  }
  EXPECT_LT(Growth(before), 16 << 20);
  EXPECT_TRUE(Eventually([&] { return listener_->connections() == 1; }));
}

TEST_F(ListenerHostileTest, AClientThatOnlyAsksAndNeverReadsIsNotReadFrom) {
  ListenerOptions options;
  options.limits.reader_stall = milliseconds(300);
  options.limits.packets_per_s = 1'000'000'000;
  options.limits.packet_burst = 1'000'000'000;
  StartListener(options);
  SocketClient client(std::make_unique<TcpWire>(port(), 4096), Version::k5);
  ASSERT_EQ(client.Connect("alice", "c"), ReasonCode::kSuccess);
  const int64_t before = ResidentBytes();
  auto& socket = dynamic_cast<TcpWire&>(client.wire()).socket();
  std::string pings;
  for (int i = 0; i < 30'000; ++i) pings += std::string("\xC0\0", 2);
  std::thread asking([&] {
    boost::system::error_code ec;
    while (!ec) boost::asio::write(socket, boost::asio::buffer(pings), ec);
  });
  EXPECT_TRUE(Eventually([&] { return listener_->connections() == 0; }));
  asking.join();
  EXPECT_LT(Growth(before), 32 << 20);
}

}  // namespace
}  // namespace tutti::mqtt::listener::testing
