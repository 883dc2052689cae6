// MQTT clients over real sockets for tests: plain, TLS and WebSocket. Blocking, with a time limit;
// nothing is corrected or hidden.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cpu_time.h"
#include "mqtt/codec.h"
#include "server/net/testing/tls_session.h"

// Tests name only the fields that they are about.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace tutti::mqtt::listener::testing {

// How long a test waits for what must come.
inline const int kPatienceMs = support::kSlower > 1 ? 60'000 : 10'000;

// A connection as bytes. Fill: false when nothing came in time or the server has closed.
class Wire {
 public:
  virtual ~Wire() = default;
  virtual bool Send(std::string_view bytes) = 0;
  virtual bool Fill(std::string& to, int timeout_ms) = 0;
  virtual bool closed() const = 0;
};

class TcpWire : public Wire {
 public:
  explicit TcpWire(int port, int receive_buffer = 0) {
    boost::system::error_code ec;
    socket_.open(boost::asio::ip::tcp::v4(), ec);
    if (receive_buffer > 0) {
      socket_.set_option(boost::asio::socket_base::receive_buffer_size(receive_buffer), ec);
    }
    socket_.connect({boost::asio::ip::make_address("127.0.0.1"), static_cast<uint16_t>(port)}, ec);
    closed_ = static_cast<bool>(ec);
    socket_.set_option(boost::asio::ip::tcp::no_delay(true), ec);
  }
  bool Send(std::string_view bytes) override {
    boost::system::error_code ec;
    boost::asio::write(socket_, boost::asio::buffer(bytes), ec);
    return !ec;
  }
  bool Fill(std::string& to, int timeout_ms) override {
    if (!Readable(timeout_ms)) return false;
    char chunk[16384];
    boost::system::error_code ec;
    const size_t got = socket_.read_some(boost::asio::buffer(chunk), ec);
    if (ec) closed_ = true;
    to.append(chunk, got);
    return !ec;
  }
  bool closed() const override { return closed_; }
  bool Readable(int timeout_ms) {
    pollfd p{socket_.native_handle(), POLLIN, 0};
    return poll(&p, 1, timeout_ms) > 0;
  }
  boost::asio::ip::tcp::socket& socket() { return socket_; }

 protected:
  boost::asio::io_context context_;
  boost::asio::ip::tcp::socket socket_{context_};
  bool closed_ = false;
};

class TlsWire final : public TcpWire {
 public:
  // `own`: the client's certificate, if any.
  explicit TlsWire(int port, const access::testing::CertificatePaths* own = nullptr)
      : TcpWire(port), tls_(socket_.native_handle(), 0, own) {
    if (!tls_.connected()) closed_ = true;
  }
  bool Send(std::string_view bytes) override { return tls_.Send(bytes); }
  bool Fill(std::string& to, int timeout_ms) override {
    if (!tls_.HasBytes() && !Readable(timeout_ms)) return false;
    if (!tls_.Fill(to)) closed_ = true;
    return !closed_;
  }

 private:
  sockets::testing::TlsSession tls_;
};

class WebSocketWire final : public Wire {
 public:
  WebSocketWire(int port, const std::string& path, const std::string& protocol) : tcp_(port) {
    stream_.emplace(tcp_.socket());
    stream_->set_option(boost::beast::websocket::stream_base::decorator([protocol](auto& request) {
      if (!protocol.empty()) {
        request.set(boost::beast::http::field::sec_websocket_protocol, protocol);
      }
    }));
    stream_->binary(true);
    boost::system::error_code ec;
    stream_->handshake(response_, "localhost", path, ec);
    accepted_ = !ec;
  }
  bool accepted() const { return accepted_; }
  int status() const { return response_.result_int(); }
  std::string protocol() const {
    return std::string(response_[boost::beast::http::field::sec_websocket_protocol]);
  }
  bool Send(std::string_view bytes) override {
    boost::system::error_code ec;
    stream_->write(boost::asio::buffer(bytes), ec);
    return !ec;
  }
  bool SendText(std::string_view text) {
    stream_->text(true);
    return Send(text);
  }
  // Waits without a limit, because data may already be in the stream's own buffer.
  bool Fill(std::string& to, int) override {
    boost::beast::flat_buffer buffer;
    boost::system::error_code ec;
    stream_->read(buffer, ec);
    if (ec) closed_ = true;
    to += boost::beast::buffers_to_string(buffer.data());
    return !ec;
  }
  bool closed() const override { return closed_; }

 private:
  TcpWire tcp_;
  std::optional<boost::beast::websocket::stream<boost::asio::ip::tcp::socket&>> stream_;
  boost::beast::websocket::response_type response_;
  bool accepted_ = false, closed_ = false;
};

class SocketClient {
 public:
  SocketClient(std::unique_ptr<Wire> wire, Version version)
      : wire_(std::move(wire)), version_(version) {}
  SocketClient(int port, Version version)
      : SocketClient(std::make_unique<TcpWire>(port), version) {}

  bool Send(const Packet& packet) {
    const auto bytes = Encode(version_, packet);
    CHECK(bytes.ok()) << bytes.status();
    return wire_->Send(*bytes);
  }
  bool SendBytes(std::string_view bytes) { return wire_->Send(bytes); }

  // CONNECT as `user` with the password that goes with it; the answer.
  ReasonCode Connect(const std::string& user, const std::string& client_id) {
    mqtt::Connect connect{.version = version_, .keep_alive_s = 60, .client_id = client_id};
    connect.user_name = user;
    connect.password = "secret of " + user;
    return Connect(connect);
  }
  ReasonCode Connect(mqtt::Connect connect) {
    connect.version = version_;
    Send(connect);
    const auto connack = Next<Connack>();
    return connack ? connack->reason : ReasonCode::kUnspecified;
  }
  ReasonCode Subscribe(const std::string& filter) {
    Send(mqtt::Subscribe{.packet_id = 1, .subscriptions = {{.filter = filter, .qos = 1}}});
    const auto suback = Next<Suback>();
    return suback ? suback->reasons.at(0) : ReasonCode::kUnspecified;
  }

  // Nothing: none came in time, or another type did.
  template <typename T>
  std::optional<T> Next(int timeout_ms = kPatienceMs) {
    std::optional<Packet> packet = NextPacket(timeout_ms);
    if (!packet || !std::holds_alternative<T>(*packet)) return std::nullopt;
    return std::get<T>(std::move(*packet));
  }
  std::optional<Packet> NextPacket(int timeout_ms = kPatienceMs) {
    while (true) {
      buffer_.erase(0, splitter_.Feed(buffer_));
      CHECK(!splitter_.fault()) << splitter_.fault()->why;
      if (splitter_.done()) break;
      if (!wire_->Fill(buffer_, timeout_ms)) return std::nullopt;
    }
    Decoded decoded = Decode(version_, splitter_.Take());
    CHECK(decoded.ok()) << decoded.fault->why;
    return std::move(decoded.packet);
  }
  bool WaitClosed(int timeout_ms = kPatienceMs) {
    std::string ignored;
    while (!wire_->closed() && wire_->Fill(ignored, timeout_ms)) {
    }
    return wire_->closed();
  }
  Wire& wire() { return *wire_; }

 private:
  std::unique_ptr<Wire> wire_;
  const Version version_;
  FrameSplitter splitter_{FrameLimits{.packet_bytes = 16 << 20}};
  std::string buffer_;
};

}  // namespace tutti::mqtt::listener::testing
