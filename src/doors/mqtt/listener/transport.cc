#include "doors/mqtt/listener/transport.h"

#include <sys/stat.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <utility>

#include "doors/mqtt/listener/websocket.h"

namespace tutti::mqtt::listener {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

Status BadTls(const char* option, std::string message) {
  return InvalidArgument("invalid_value", std::move(message)).WithParam(option);
}

class PlainTransport final : public Transport {
 public:
  explicit PlainTransport(Socket socket) : socket_(std::move(socket)) {}

  void Handshake(Handler done) override { done(true, 0); }
  void ReadSome(char* data, size_t size, Handler done) override {
    socket_.async_read_some(
        boost::asio::buffer(data, size),
        [done = std::move(done)](error_code ec, size_t bytes) { done(!ec, bytes); });
  }
  void WriteSome(const char* data, size_t size, Handler done) override {
    socket_.async_write_some(
        boost::asio::buffer(data, size),
        [done = std::move(done)](error_code ec, size_t bytes) { done(!ec, bytes); });
  }
  void ShutdownSend() override {
    error_code ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
  }
  void Close() override {
    error_code ignored;
    socket_.close(ignored);
  }

 private:
  Socket socket_;
};

class TlsTransport final : public Transport, public std::enable_shared_from_this<TlsTransport> {
 public:
  TlsTransport(Socket socket, std::shared_ptr<TlsContext> context)
      : context_(std::move(context)), stream_(std::move(socket), *context_) {}

  void Handshake(Handler done) override {
    stream_.async_handshake(ssl::stream_base::server,
                            [done = std::move(done)](error_code ec) { done(!ec, 0); });
  }
  void ReadSome(char* data, size_t size, Handler done) override {
    stream_.async_read_some(
        boost::asio::buffer(data, size),
        [done = std::move(done)](error_code ec, size_t bytes) { done(!ec, bytes); });
  }
  void WriteSome(const char* data, size_t size, Handler done) override {
    stream_.async_write_some(
        boost::asio::buffer(data, size),
        [done = std::move(done)](error_code ec, size_t bytes) { done(!ec, bytes); });
  }
  void ShutdownSend() override {  // a close_notify; the peer's own is not waited for
    stream_.async_shutdown([self = shared_from_this()](error_code) {});
  }
  void Close() override {
    error_code ignored;
    stream_.next_layer().close(ignored);
  }

 private:
  const std::shared_ptr<TlsContext> context_;
  ssl::stream<Socket> stream_;
};

}  // namespace

Result<std::shared_ptr<TlsContext>> LoadTls(const std::string& cert_file,
                                            const std::string& key_file) {
  auto context = std::make_shared<TlsContext>(ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  error_code ec;
  context->use_certificate_chain_file(cert_file, ec);
  if (ec) {
    return BadTls("tls-cert",
                  "cannot use the certificate chain " + cert_file + ": " + ec.message());
  }
  struct stat info {};
  if (stat(key_file.c_str(), &info) == 0 && (info.st_mode & (S_IROTH | S_IWOTH)) != 0) {
    return BadTls("tls-key",
                  "the private key " + key_file + " can be read by others: chmod 600 it");
  }
  context->use_private_key_file(key_file, ssl::context::pem, ec);
  if (ec) return BadTls("tls-key", "cannot use the private key " + key_file + ": " + ec.message());
  if (SSL_CTX_check_private_key(context->native_handle()) != 1) {
    return BadTls("tls-key", "the private key " + key_file + " does not belong to the certificate");
  }
  return context;
}

std::shared_ptr<Transport> MakeTransport(Transport::Socket socket, std::shared_ptr<TlsContext> tls,
                                         bool websocket) {
  if (websocket) return MakeWebSocket(std::move(socket), std::move(tls));
  if (tls != nullptr) return std::make_shared<TlsTransport>(std::move(socket), std::move(tls));
  return std::make_shared<PlainTransport>(std::move(socket));
}

}  // namespace tutti::mqtt::listener
