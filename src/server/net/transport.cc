#include "server/net/transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <chrono>
#include <cstdint>
#include <utility>

namespace tutti::sockets {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

// Common part of both transports; `Stream` is a Socket, or a TLS stream over one.
template <typename Stream>
class StreamTransport : public Transport {
 public:
  template <typename... Args>
  explicit StreamTransport(std::shared_ptr<TlsContext> tls, Args&&... args)
      : tls_(std::move(tls)), stream_(std::forward<Args>(args)...) {}

  void ReadSome(char* data, size_t size, Handler done) final {
    stream_.async_read_some(
        boost::asio::buffer(data, size),
        [done = std::move(done)](error_code ec, size_t bytes) { done(!ec, bytes); });
  }
  void WriteSome(const char* data, size_t size, Handler done) final {
    stream_.async_write_some(
        boost::asio::buffer(data, size),
        [done = std::move(done)](error_code ec, size_t bytes) { done(!ec, bytes); });
  }
  void AwaitGone(Duration silence, std::function<void()> gone) final {
    auto& socket = stream_.lowest_layer();
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(silence).count();
    const auto timeout = static_cast<unsigned>(std::clamp<int64_t>(ms, 1, INT32_MAX));
    setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
    socket.async_wait(Socket::wait_error, [gone = std::move(gone)](error_code) { gone(); });
  }
  void Close(bool reset) final {
    error_code ignored;
    auto& socket = stream_.lowest_layer();
    if (reset) socket.set_option(boost::asio::socket_base::linger(true, 0), ignored);
    socket.close(ignored);
  }

 private:
  const std::shared_ptr<TlsContext> tls_;  // outlives the stream

 protected:
  Stream stream_;
};

class PlainTransport final : public StreamTransport<Transport::Socket> {
 public:
  explicit PlainTransport(Socket socket) : StreamTransport(nullptr, std::move(socket)) {}

  void Handshake(Handler done) override { done(true, 0); }
  void ShutdownSend() override {
    error_code ignored;
    stream_.shutdown(Socket::shutdown_send, ignored);
  }
};

class TlsTransport final : public StreamTransport<ssl::stream<Transport::Socket>>,
                           public std::enable_shared_from_this<TlsTransport> {
 public:
  TlsTransport(Socket socket, const std::shared_ptr<TlsContext>& tls)
      : StreamTransport(tls, std::move(socket), *tls) {}

  void Handshake(Handler done) override {
    stream_.async_handshake(ssl::stream_base::server,
                            [this, done = std::move(done)](error_code ec) {
                              if (ec) fault_ = HandshakeFaultOf(ec);
                              done(!ec, 0);
                            });
  }
  std::string HandshakeFault() const override { return fault_; }
  std::optional<access::ClientCertificate> Certificate() override {
    return CertificateOfPeer(stream_.native_handle());
  }
  void ShutdownSend() override {
    // Ends with a close_notify, so that a truncation cannot be mistaken for the end of the data.
    // The peer's close_notify is not awaited: the owner closes this after its linger time.
    stream_.async_shutdown([self = shared_from_this()](error_code) {});
  }

 private:
  std::string fault_;
};

}  // namespace

std::shared_ptr<Transport> MakeTransport(Transport::Socket socket,
                                         const std::shared_ptr<TlsContext>& tls) {
  if (tls != nullptr) return std::make_shared<TlsTransport>(std::move(socket), tls);
  return std::make_shared<PlainTransport>(std::move(socket));
}

}  // namespace tutti::sockets
