// The same bytes over TCP and TLS, and how either ends.
#include "doors/sockets/transport.h"

#include <gtest/gtest.h>

#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/asio/write.hpp>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "doors/sockets/io_thread.h"
#include "doors/sockets/testing/certificate.h"
#include "doors/sockets/testing/tls_session.h"

namespace tutti::sockets {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;
using testing::TlsSession;

// A transport on an io thread, and the connected socket of its client, which blocks.
class TransportTest : public ::testing::Test {
 protected:
  ~TransportTest() override {
    OnThread([this] { transport_->Close(false); });
    thread_.Stop();
  }

  void Connect(const std::shared_ptr<TlsContext>& tls) {
    tcp::acceptor listening(client_context_, {boost::asio::ip::make_address("127.0.0.1"), 0});
    client_.connect(listening.local_endpoint());
    transport_ = MakeTransport(listening.accept(thread_.context()), tls);
    thread_.Start();
  }
  std::shared_ptr<TlsContext> ServerTls() {
    const auto paths = testing::MakeCertificate(folder_, "server");
    auto tls = LoadServerTls(paths.cert, paths.key);
    EXPECT_TRUE(tls.ok()) << tls.status();
    return *tls;
  }

  void OnThread(std::function<void()> work) {
    boost::asio::post(thread_.context(), boost::asio::use_future(std::move(work))).get();
  }
  std::string HandshakeFault() {
    std::string fault;
    OnThread([&] { fault = transport_->HandshakeFault(); });
    return fault;
  }
  // Begins a handshake; what it comes to.
  std::future<bool> Handshake() {
    auto done = std::make_shared<std::promise<bool>>();
    std::future<bool> result = done->get_future();
    boost::asio::post(thread_.context(), [this, done] {
      transport_->Handshake([done](bool ok, size_t) { done->set_value(ok); });
    });
    return result;
  }
  // Writes back whatever comes, then says that there is no more.
  void EchoOnce() {
    boost::asio::post(thread_.context(), [this] {
      transport_->ReadSome(buffer_.data(), buffer_.size(), [this](bool ok, size_t bytes) {
        if (!ok) return;
        transport_->WriteSome(buffer_.data(), bytes,
                              [this](bool, size_t) { transport_->ShutdownSend(); });
      });
    });
  }

  const support::TempFolder folder_;
  boost::asio::io_context client_context_;
  tcp::socket client_{client_context_};
  std::array<char, 4096> buffer_{};
  IoThread thread_{nullptr, "test.handler_failed"};
  std::shared_ptr<Transport> transport_;
};

TEST_F(TransportTest, PlainBytesGoThereAndBackAndEnd) {
  Connect(nullptr);
  EXPECT_TRUE(Handshake().get());
  EchoOnce();
  boost::asio::write(client_, boost::asio::buffer(std::string("hello")));
  std::string all;
  error_code ec;
  boost::asio::read(client_, boost::asio::dynamic_buffer(all), ec);
  EXPECT_EQ(all, "hello");
  EXPECT_EQ(ec, boost::asio::error::eof);
}

TEST_F(TransportTest, TlsDoesTheSameAndSaysGoodbye) {
  Connect(ServerTls());
  std::future<bool> shaken = Handshake();
  TlsSession session(client_.native_handle());
  EXPECT_TRUE(session.connected());
  EXPECT_TRUE(shaken.get());
  EchoOnce();
  EXPECT_TRUE(session.Send("hello"));
  std::string all;
  while (all.size() < 5 && session.Fill(all)) {
  }
  EXPECT_EQ(all, "hello");
  EXPECT_TRUE(session.EndsCleanly());
}

TEST_F(TransportTest, WhyAHandshakeFailedIsTold) {
  Connect(ServerTls());
  std::future<bool> shaken = Handshake();
  boost::asio::write(client_, boost::asio::buffer(std::string("GET / HTTP/1.1\r\n\r\n")));
  EXPECT_FALSE(shaken.get());
  EXPECT_EQ(HandshakeFault(), "plain HTTP on the TLS port");
}

TEST_F(TransportTest, AClientThatOnlyComesAndGoesIsNoFault) {
  Connect(ServerTls());
  std::future<bool> shaken = Handshake();
  client_.close();
  EXPECT_FALSE(shaken.get());
  EXPECT_EQ(HandshakeFault(), "");
}

TEST_F(TransportTest, AResetIsSeenAsOne) {
  Connect(nullptr);
  OnThread([this] { transport_->Close(true); });
  char byte;
  error_code ec;
  client_.read_some(boost::asio::buffer(&byte, 1), ec);
  EXPECT_EQ(ec, boost::asio::error::connection_reset);
}

}  // namespace
}  // namespace tutti::sockets
