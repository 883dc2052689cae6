// Accepting connections, and when the next one is accepted. Single-threaded: the test runs the
// context.
#include "server/net/acceptor.h"

#include <gtest/gtest.h>
#include <netinet/tcp.h>

#include <boost/asio/error.hpp>
#include <chrono>
#include <list>
#include <new>
#include <utility>
#include <vector>

namespace tutti::sockets {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

class AcceptorTest : public ::testing::Test {
 protected:
  // Keeps accepted sockets, after the scripted failures are used up.
  error_code Take(tcp::acceptor& from) {
    ++takes_;
    if (std::exchange(no_memory_, false)) throw std::bad_alloc();
    if (fails_) return std::exchange(fails_, error_code());
    tcp::socket socket(context_);
    error_code ec;
    from.accept(socket, ec);
    if (!ec) taken_.push_back(std::move(socket));
    return ec;
  }
  void Listen() {
    const Status status =
        acceptor_.Listen({boost::asio::ip::make_address("127.0.0.1"), 0}, "127.0.0.1", "port");
    ASSERT_TRUE(status.ok()) << status;
  }
  void Connect() {
    clients_.emplace_back(context_);
    clients_.back().connect(acceptor_.bound());
  }
  // Runs until `count` connections are accepted, at most for `limit`.
  bool RunUntilTaken(size_t count, Duration limit = std::chrono::seconds(10)) {
    const auto until = std::chrono::steady_clock::now() + limit;
    while (taken_.size() < count && std::chrono::steady_clock::now() < until) {
      context_.restart();
      context_.run_one_for(std::chrono::milliseconds(10));
    }
    return taken_.size() >= count;
  }

  boost::asio::io_context context_{1};
  size_t room_ = 100;
  bool no_memory_ = false;
  error_code fails_;
  int takes_ = 0;
  std::vector<tcp::socket> taken_;
  std::list<tcp::socket> clients_;
  Acceptor acceptor_{context_,
                     {.has_room = [this] { return taken_.size() < room_; },
                      .take = [this](tcp::acceptor& from) { return Take(from); }}};
};

TEST_F(AcceptorTest, GoesOnFromOneToTheNext) {
  Listen();
  acceptor_.Accept();
  acceptor_.Accept();  // changes nothing: one accept waits
  for (int i = 0; i < 3; ++i) Connect();
  EXPECT_TRUE(RunUntilTaken(3));
  EXPECT_EQ(takes_, 3);
}

TEST_F(AcceptorTest, WaitsWhileThereIsNoRoomAndGoesOnWhenTold) {
  room_ = 1;
  Listen();
  acceptor_.Accept();
  for (int i = 0; i < 2; ++i) Connect();
  EXPECT_FALSE(RunUntilTaken(2, std::chrono::milliseconds(200)));
  EXPECT_EQ(taken_.size(), 1u);
  room_ = 2;
  acceptor_.Accept();
  EXPECT_TRUE(RunUntilTaken(2));
}

TEST_F(AcceptorTest, WithoutADescriptorItTriesAgainALittleLater) {
  Listen();
  acceptor_.Accept();
  Connect();
  fails_ = boost::asio::error::no_descriptors;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(RunUntilTaken(1));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(50));
  EXPECT_EQ(takes_, 2);
}

TEST_F(AcceptorTest, WithoutMemoryItTriesAgainALittleLater) {
  Listen();
  acceptor_.Accept();
  Connect();
  no_memory_ = true;
  EXPECT_TRUE(RunUntilTaken(1));
  EXPECT_EQ(takes_, 2);
}

TEST_F(AcceptorTest, OnceClosedItTakesNobody) {
  Listen();
  acceptor_.Accept();
  Connect();
  acceptor_.Close();
  EXPECT_FALSE(RunUntilTaken(1, std::chrono::milliseconds(100)));
  acceptor_.Accept();
  EXPECT_EQ(takes_, 0);
  tcp::socket late(context_);
  error_code ec;
  late.connect(acceptor_.bound(), ec);
  EXPECT_TRUE(ec);
}

TEST_F(AcceptorTest, APortThatIsTakenIsNamedWithItsOption) {
  Listen();
  Acceptor second(context_, {});
  const Status status = second.Listen(acceptor_.bound(), "localhost", "mqtt-port");
  EXPECT_EQ(status.reason(), "io_error");
  EXPECT_EQ(status.param(), "mqtt-port");
  EXPECT_NE(status.message().find("cannot listen on localhost port " +
                                  std::to_string(acceptor_.bound().port()) + ": "),
            std::string::npos)
      << status;
}

TEST_F(AcceptorTest, ASocketIsSetUpForAPeerThatVanishes) {
  Listen();
  acceptor_.Accept();
  Connect();
  ASSERT_TRUE(RunUntilTaken(1));
  Tune(taken_[0], std::chrono::seconds(30), 0);
  unsigned ms = 0;
  socklen_t size = sizeof ms;
  ASSERT_EQ(getsockopt(taken_[0].native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, &size), 0);
  EXPECT_EQ(ms, 35'000u);
  tcp::no_delay no_delay;
  taken_[0].get_option(no_delay);
  EXPECT_TRUE(no_delay.value());
}

}  // namespace
}  // namespace tutti::sockets
