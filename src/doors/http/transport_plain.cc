#include <boost/asio/buffer.hpp>
#include <utility>

#include "doors/http/transport.h"

namespace tutti::http {
namespace {

using boost::system::error_code;

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

  void Close(bool reset) override {
    error_code ignored;
    if (reset) socket_.set_option(boost::asio::socket_base::linger(true, 0), ignored);
    socket_.close(ignored);
  }

 private:
  Socket socket_;
};

}  // namespace

std::shared_ptr<Transport> MakePlainTransport(Transport::Socket socket) {
  return std::make_shared<PlainTransport>(std::move(socket));
}

}  // namespace tutti::http
