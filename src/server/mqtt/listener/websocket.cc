// WebSocketTransport: MQTT over WebSocket, as MakeWebSocket (connection.h) describes it.
#include <array>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "server/mqtt/listener/connection.h"

namespace tutti::mqtt::listener {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
namespace websocket = boost::beast::websocket;
using boost::system::error_code;
using sockets::TlsContext;
using sockets::Transport;
using Request = http::request<http::empty_body>;

constexpr size_t kMaxHeadBytes = 8 << 10;
constexpr size_t kMaxMessageBytes = 8 << 20;  // of WebSocket; packets may share one, or span some
constexpr size_t kMaxUnreadBytes = 64 << 10;
constexpr const char* kPath = "/mqtt";
constexpr const char* kProtocol = "mqtt";

// The status that refuses this request to become a WebSocket; nothing if it may.
std::optional<http::status> Objection(const Request& request, bool more_bytes,
                                      const access::WebRule& rule) {
  if (request.count(http::field::host) > 1) return http::status::bad_request;
  const auto field = [&](http::field name) -> std::optional<std::string> {
    const auto found = request.find(name);
    if (found == request.end()) return std::nullopt;
    return std::string(found->value());
  };
  const std::optional<std::string> host = field(http::field::host);
  const std::optional<std::string> origin = field(http::field::origin);
  const Status may = rule.Check({.host = host.has_value() ? &*host : nullptr,
                                 .origin = origin.has_value() ? &*origin : nullptr,
                                 .origins = request.count(http::field::origin)});
  if (!may.ok()) {
    return may.code() == StatusCode::kPermissionDenied ? http::status::forbidden
                                                       : http::status::bad_request;
  }
  // A query is refused, because it could hold a secret, which would end up in logs.
  if (request.target() != kPath) return http::status::not_found;
  if (!websocket::is_upgrade(request)) return http::status::upgrade_required;
  if (!http::token_list(request[http::field::sec_websocket_protocol]).exists(kProtocol) ||
      more_bytes) {
    return http::status::bad_request;
  }
  return std::nullopt;
}

template <typename Next>  // Transport::Socket, or a TLS stream of one
class WebSocketTransport final : public Transport,
                                 public std::enable_shared_from_this<WebSocketTransport<Next>> {
 public:
  template <typename... Args>
  WebSocketTransport(const access::WebRule& rule, std::shared_ptr<TlsContext> tls, Args&&... args)
      : rule_(rule), tls_(std::move(tls)), stream_(std::forward<Args>(args)...) {
    parser_.emplace();
    parser_->header_limit(kMaxHeadBytes);
    parser_->body_limit(0);
    stream_.binary(true);
    stream_.auto_fragment(false);
    stream_.read_message_max(kMaxMessageBytes);
    stream_.set_option(websocket::stream_base::decorator([](websocket::response_type& response) {
      response.set(http::field::sec_websocket_protocol, kProtocol);
      response.set(http::field::server, "tutti");
    }));
  }

  void Handshake(Handler done) override {
    if constexpr (std::is_same_v<Next, Socket>) {
      ReadRequest(std::move(done));
    } else {
      stream_.next_layer().async_handshake(asio::ssl::stream_base::server,
                                           [this, done = std::move(done)](error_code ec) mutable {
                                             if (!ec) return ReadRequest(std::move(done));
                                             fault_ = sockets::HandshakeFaultOf(ec);
                                             done(false, 0);
                                           });
    }
  }

  std::string HandshakeFault() const override { return fault_; }
  std::optional<access::ClientCertificate> Certificate() override {
    if constexpr (std::is_same_v<Next, Socket>) {
      return std::nullopt;
    } else {
      return sockets::CertificateOfPeer(stream_.next_layer().native_handle());
    }
  }

  void ReadSome(char* data, size_t size, Handler done) override {
    stream_.async_read_some(asio::buffer(data, size),
                            [this, done = std::move(done)](error_code ec, size_t bytes) {
                              // Only binary messages carry MQTT (section 6).
                              done(!ec && (bytes == 0 || stream_.got_binary()), bytes);
                            });
  }
  void WriteSome(const char* data, size_t size, Handler done) override {
    stream_.async_write(
        asio::buffer(data, size),
        [done = std::move(done)](error_code ec, size_t bytes) { done(!ec, bytes); });
  }
  void ShutdownSend() override {
    if (!stream_.is_open()) return;
    stream_.async_close(websocket::close_code::normal,
                        [self = this->shared_from_this()](error_code) {});
  }
  void Close(bool reset) override {
    error_code ignored;
    auto& socket = boost::beast::get_lowest_layer(stream_);
    if (reset) socket.set_option(asio::socket_base::linger(true, 0), ignored);
    socket.close(ignored);
  }

 private:
  void ReadRequest(Handler done) {
    http::async_read(stream_.next_layer(), head_, *parser_,
                     [this, done = std::move(done)](error_code ec, size_t) mutable {
                       if (ec == http::error::header_limit || ec == http::error::buffer_overflow) {
                         return RefuseWith(http::status::request_header_fields_too_large,
                                           std::move(done));
                       }
                       if (ec) return done(false, 0);
                       OnRequest(std::move(done));
                     });
  }

  void OnRequest(Handler done) {
    request_ = parser_->release();
    parser_.reset();
    if (const auto objection = Objection(request_, head_.size() > 0, rule_)) {
      return RefuseWith(*objection, std::move(done));
    }
    stream_.async_accept(request_, [this, done = std::move(done)](error_code ec) {
      head_.shrink_to_fit();
      request_ = Request();
      done(!ec, 0);
    });
  }

  void RefuseWith(http::status status, Handler done) {
    refusal_ = http::response<http::empty_body>(status, 11);
    refusal_.set(http::field::connection, "close");
    if (status == http::status::upgrade_required) {
      refusal_.set(http::field::upgrade, "websocket");
    }
    refusal_.prepare_payload();
    http::async_write(stream_.next_layer(), refusal_,
                      [this, done = std::move(done)](error_code ec, size_t) mutable {
                        if (ec) return done(false, 0);
                        error_code ignored;
                        boost::beast::get_lowest_layer(stream_).shutdown(Socket::shutdown_send,
                                                                         ignored);
                        Linger(std::move(done));
                      });
  }

  // Closing with bytes unread would reset the connection, and take the answer with it. The time of
  // the handshake bounds this.
  void Linger(Handler done) {
    boost::beast::get_lowest_layer(stream_).async_read_some(
        asio::buffer(unwanted_),
        [this, done = std::move(done)](error_code ec, size_t bytes) mutable {
          lingered_bytes_ += bytes;
          if (ec || lingered_bytes_ > kMaxUnreadBytes) return done(false, 0);
          Linger(std::move(done));
        });
  }

  const access::WebRule& rule_;
  const std::shared_ptr<TlsContext> tls_;  // outlives the stream
  websocket::stream<Next, /*deflateSupported=*/false> stream_;
  // --- until the handshake is done ---
  boost::beast::flat_buffer head_{kMaxHeadBytes};
  std::optional<http::request_parser<http::empty_body>> parser_;
  Request request_;
  http::response<http::empty_body> refusal_;
  std::array<char, 1024> unwanted_;
  size_t lingered_bytes_ = 0;
  std::string fault_;
};

}  // namespace

std::shared_ptr<Transport> MakeWebSocket(Transport::Socket socket, std::shared_ptr<TlsContext> tls,
                                         const access::WebRule& rule) {
  if (tls == nullptr) {
    return std::make_shared<WebSocketTransport<Transport::Socket>>(rule, nullptr,
                                                                   std::move(socket));
  }
  TlsContext& context = *tls;
  return std::make_shared<WebSocketTransport<asio::ssl::stream<Transport::Socket>>>(
      rule, std::move(tls), std::move(socket), context);
}

}  // namespace tutti::mqtt::listener
