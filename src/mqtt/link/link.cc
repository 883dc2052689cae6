#include "mqtt/link/link.h"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace tutti::mqtt {
namespace {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using asio::ip::tcp;
using boost::system::error_code;

using Plain = tcp::socket;
using Tls = ssl::stream<tcp::socket>;

// `Stream` is Plain or Tls.
template <typename Stream>
class LinkOver final : public Link, public std::enable_shared_from_this<LinkOver<Stream>> {
 public:
  LinkOver(asio::io_context& io, Address address, Stream stream, const Options& options,
           Handlers handlers)
      : address_(std::move(address)),
        options_(options),
        resolver_(io),
        stream_(std::move(stream)),
        handlers_(std::move(handlers)) {}

  void Open() override {
    error_code ec;
    const auto digits = asio::ip::make_address(address_.host, ec);
    const auto port = static_cast<uint16_t>(address_.port);
    if (!ec) {
      // Deferred, so that no callback runs within the caller's call.
      asio::post(stream_.get_executor(), [self = this->shared_from_this(), digits, port] {
        if (!self->closed_) self->Connect({tcp::endpoint(digits, port)});
      });
      return;
    }
    resolver_.async_resolve(address_.host, std::to_string(address_.port),
                            tcp::resolver::numeric_service,
                            [self = this->shared_from_this()](error_code failed, auto results) {
                              self->OnResolved(failed, results);
                            });
  }

  void Send(std::string bytes) override {
    if (bytes.empty() || closed_) return;
    waiting_ += bytes;
    if (sending_.empty() && open_) Write();
  }

  size_t unsent() const override { return waiting_.size() + sending_.size() - sent_; }

  void SetReading(bool reading) override {
    if (reading_ == reading) return;
    reading_ = reading;
    if (reading && open_ && !in_read_) Read();
  }

  void Close() override {
    closed_ = true;
    open_ = false;
    resolver_.cancel();
    error_code ignored;
    Socket().shutdown(tcp::socket::shutdown_both, ignored);
    Socket().close(ignored);
  }

 private:
  tcp::socket& Socket() {
    if constexpr (std::is_same_v<Stream, Tls>) {
      return stream_.next_layer();
    } else {
      return stream_;
    }
  }

  void OnResolved(error_code ec, const tcp::resolver::results_type& results) {
    if (closed_) return;
    if (ec) return Fail(options_.unreachable, "the name is not known: " + ec.message());
    std::vector<tcp::endpoint> endpoints;
    for (const auto& entry : results) {
      if (address_.tls || options_.plain_beyond_loopback ||
          entry.endpoint().address().is_loopback()) {
        endpoints.push_back(entry.endpoint());
      }
    }
    if (endpoints.empty()) {
      return Fail(options_.unreachable,
                  "the name leads to no loopback address, which a connection without TLS needs");
    }
    Connect(std::move(endpoints));
  }

  void Connect(std::vector<tcp::endpoint> endpoints) {
    asio::async_connect(Socket(), std::move(endpoints),
                        [self = this->shared_from_this()](error_code ec, const tcp::endpoint&) {
                          self->OnConnected(ec);
                        });
  }

  void OnConnected(error_code ec) {
    if (closed_) return;
    if (ec) return Fail(options_.unreachable, ec.message());
    error_code ignored;
    Socket().set_option(tcp::no_delay(true), ignored);
    if constexpr (std::is_same_v<Stream, Tls>) {
      stream_.set_verify_callback(ssl::host_name_verification(address_.host));
      // Only names are sent to the server (RFC 6066), no addresses.
      asio::ip::make_address(address_.host, ec);
      if (ec) SSL_set_tlsext_host_name(stream_.native_handle(), address_.host.c_str());
      stream_.async_handshake(
          ssl::stream_base::client,
          [self = this->shared_from_this()](error_code failed) { self->OnHandshake(failed); });
    } else {
      OnHandshake({});
    }
  }

  void OnHandshake(error_code ec) {
    if (closed_) return;
    if (ec) return Fail(options_.tls, "TLS: " + HandshakeFault(ec));
    open_ = true;
    handlers_.opened();
    if (closed_) return;
    if (reading_) Read();
    if (!waiting_.empty() && sending_.empty()) Write();
  }

  std::string HandshakeFault(error_code ec) {
    std::string why = ec.message();
    if constexpr (std::is_same_v<Stream, Tls>) {
      const long verdict = SSL_get_verify_result(stream_.native_handle());
      if (verdict != X509_V_OK) why += ": " + std::string(X509_verify_cert_error_string(verdict));
    }
    return why;
  }

  void Read() {
    in_read_ = true;
    stream_.async_read_some(
        asio::buffer(buffer_), [self = this->shared_from_this()](error_code ec, size_t bytes) {
          self->in_read_ = false;
          if (self->closed_) return;
          if (ec) return self->FailLost(ec);
          self->handlers_.received(std::string_view(self->buffer_.data(), bytes));
          if (!self->closed_ && self->reading_ && !self->in_read_) self->Read();
        });
  }

  void Write() {
    sending_.swap(waiting_);
    WriteRest();
  }

  void WriteRest() {
    stream_.async_write_some(asio::buffer(sending_.data() + sent_, sending_.size() - sent_),
                             [self = this->shared_from_this()](error_code ec, size_t bytes) {
                               if (self->closed_) return;
                               if (ec) return self->FailLost(ec);
                               self->sent_ += bytes;
                               if (self->sent_ < self->sending_.size()) return self->WriteRest();
                               self->sending_.clear();
                               self->sent_ = 0;
                               if (!self->waiting_.empty()) self->Write();
                               self->handlers_.sent();
                             });
  }

  void FailLost(error_code ec) {
    Fail(options_.lost, ec == asio::error::eof ? "the connection was closed" : ec.message());
  }

  void Fail(const char* reason, const std::string& why) {
    Close();
    handlers_.closed(Unavailable(reason, UrlOf(address_) + ": " + why));
  }

  const Address address_;
  const Options options_;
  tcp::resolver resolver_;
  Stream stream_;
  const Handlers handlers_;
  bool open_ = false, closed_ = false;
  bool reading_ = true, in_read_ = false;
  std::array<char, 16 << 10> buffer_;  // a record of TLS
  std::string waiting_;                // to be sent behind sending_
  std::string sending_;                // in a write, from sent_ on
  size_t sent_ = 0;
};

}  // namespace

std::shared_ptr<Link> MakeLink(asio::io_context& io, const Address& address, ssl::context* tls,
                               const Link::Options& options, Link::Handlers handlers) {
  if (tls == nullptr) {
    return std::make_shared<LinkOver<Plain>>(io, address, Plain(io), options, std::move(handlers));
  }
  return std::make_shared<LinkOver<Tls>>(io, address, Tls(io, *tls), options, std::move(handlers));
}

Result<std::shared_ptr<ssl::context>> MakeLinkTls(const std::string& ca_file) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  context->set_verify_mode(ssl::verify_peer);
  error_code ec;
  if (ca_file.empty()) {
    context->set_default_verify_paths(ec);
    if (ec) {
      return InvalidArgument("invalid_value",
                             "the system's certificate authorities cannot be read");
    }
    return context;
  }
  context->load_verify_file(ca_file, ec);
  if (!ec) return context;
  return InvalidArgument("invalid_value",
                         "cannot use the authorities in " + ca_file + ": " + ec.message());
}

}  // namespace tutti::mqtt
