#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <sys/stat.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <utility>

#include "doors/http/transport.h"

namespace tutti::http {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

class TlsTransport final : public Transport, public std::enable_shared_from_this<TlsTransport> {
 public:
  TlsTransport(Socket socket, ssl::context& context) : stream_(std::move(socket), context) {}

  void Handshake(Handler done) override {
    stream_.async_handshake(ssl::stream_base::server,
                            [this, done = std::move(done)](error_code ec) {
                              if (ec) NoteFault(ec);
                              done(!ec, 0);
                            });
  }
  std::string HandshakeFault() const override { return fault_; }
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
  void ShutdownSend() override {
    // Ends with a close_notify, so that a truncation cannot be taken for the end of an answer. The
    // peer's own is not waited for: the connection closes this when it has lingered long enough.
    stream_.async_shutdown([self = shared_from_this()](error_code) {});
  }
  void Close(bool reset) override {
    error_code ignored;
    if (reset) stream_.next_layer().set_option(boost::asio::socket_base::linger(true, 0), ignored);
    stream_.next_layer().close(ignored);
  }

 private:
  // A probe that opens a connection and closes it is no fault.
  void NoteFault(error_code ec) {
    if (ec.category() != boost::asio::error::get_ssl_category()) return;
    fault_ = ERR_GET_REASON(static_cast<unsigned long>(ec.value())) == SSL_R_HTTP_REQUEST
                 ? "plain HTTP on the TLS port"
                 : ec.message();
  }

  ssl::stream<Socket> stream_;
  std::string fault_;
};

class Context final : public TlsContext {
 public:
  Context() : context_(ssl::context::tls_server) {}

  Status Init(const std::string& cert_file, const std::string& key_file) {
    SSL_CTX_set_min_proto_version(context_.native_handle(), TLS1_2_VERSION);
    SSL_CTX_set_options(context_.native_handle(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    error_code ec;
    context_.use_certificate_chain_file(cert_file, ec);
    if (ec)
      return Bad("tls-cert", "cannot use the certificate chain " + cert_file + ": " + ec.message());
    struct stat info {};
    if (stat(key_file.c_str(), &info) == 0 && (info.st_mode & (S_IROTH | S_IWOTH)) != 0) {
      return Bad("tls-key", "the private key " + key_file + " can be read by others: chmod 600 it");
    }
    context_.use_private_key_file(key_file, ssl::context::pem, ec);
    if (ec) return Bad("tls-key", "cannot use the private key " + key_file + ": " + ec.message());
    if (SSL_CTX_check_private_key(context_.native_handle()) != 1) {
      return Bad("tls-key", "the private key " + key_file + " does not belong to the certificate");
    }
    return OkStatus();
  }

  std::shared_ptr<Transport> Wrap(Transport::Socket socket) override {
    return std::make_shared<TlsTransport>(std::move(socket), context_);
  }

 private:
  static Status Bad(const char* option, std::string message) {
    return InvalidArgument("invalid_value", std::move(message)).WithParam(option);
  }
  ssl::context context_;
};

}  // namespace

Result<std::shared_ptr<TlsContext>> TlsContext::Load(const std::string& cert_file,
                                                     const std::string& key_file) {
  auto context = std::make_shared<Context>();
  RETURN_IF_ERROR(context->Init(cert_file, key_file));
  return std::shared_ptr<TlsContext>(std::move(context));
}

}  // namespace tutti::http
