#include "doors/mqtt/listener/acceptor.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <new>
#include <utility>

#include "doors/mqtt/listener/connection.h"

namespace tutti::mqtt::listener {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr int kBacklog = 1024;
constexpr int kSendBufferBytes = 64 << 10;  // the system's own grows to megabytes for who stopped
constexpr auto kPause = std::chrono::milliseconds(50);  // after a failure such as no descriptors

void Tune(tcp::socket& socket, const Limits& limits) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(boost::asio::socket_base::keep_alive(true), ignored);
  socket.set_option(boost::asio::socket_base::send_buffer_size(kSendBufferBytes), ignored);
  // A peer that vanished; a little later than our own rule for readers, which knows why.
  const Duration patience = limits.reader_stall + std::chrono::seconds(5);
  const auto ms = static_cast<unsigned>(
      std::chrono::duration_cast<std::chrono::milliseconds>(patience).count());
  setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

}  // namespace

Acceptor::Acceptor(Loop& loop, std::shared_ptr<TlsContext> tls, bool websocket)
    : loop_(loop),
      tls_(std::move(tls)),
      websocket_(websocket),
      acceptor_(loop.context()),
      retry_(loop.context()) {}

Status Acceptor::Listen(const boost::asio::ip::address& address, int port, const char* param) {
  const tcp::endpoint endpoint(address, static_cast<uint16_t>(port));
  error_code ec;
  acceptor_.open(endpoint.protocol(), ec);
  if (!ec) acceptor_.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) acceptor_.bind(endpoint, ec);
  if (!ec) acceptor_.listen(kBacklog, ec);
  if (!ec) acceptor_.non_blocking(true, ec);
  if (!ec) port_ = acceptor_.local_endpoint(ec).port();
  if (!ec) return OkStatus();
  return Unavailable("io_error", "cannot listen on " + address.to_string() + " port " +
                                     std::to_string(port) + ": " + ec.message())
      .WithParam(param);
}

void Acceptor::Accept() {
  if (waiting_ || !acceptor_.is_open() || loop_.connections() >= loop_.limits.connections) return;
  waiting_ = true;
  acceptor_.async_wait(tcp::acceptor::wait_read, [this](error_code ec) {
    waiting_ = false;
    if (!acceptor_.is_open()) return;
    if (!ec && TryTake()) return Accept();
    retry_.expires_after(kPause);
    retry_.async_wait([this](error_code cancelled) {
      if (!cancelled) Accept();
    });
  });
}

// False when there is no memory, or no descriptor, for a connection.
bool Acceptor::TryTake() {
  try {
    tcp::socket socket(loop_.context());
    error_code ec;
    acceptor_.accept(socket, ec);
    if (!ec) Hand(std::move(socket));
    return !ec || ec == boost::asio::error::would_block;  // a client that left meanwhile
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void Acceptor::Hand(Transport::Socket socket) {
  error_code ec;
  const auto endpoint = socket.remote_endpoint(ec);
  if (ec) return;
  const std::string address = endpoint.address().to_string();
  if (!loop_.gate.Enter(address)) return;  // closed with the socket
  Tune(socket, loop_.limits);
  auto connection = std::make_shared<Connection>(
      loop_, MakeTransport(std::move(socket), tls_, websocket_), address);
  loop_.Add(connection);
  connection->Start();
}

void Acceptor::Close() {
  error_code ignored;
  acceptor_.close(ignored);
  retry_.cancel();
}

}  // namespace tutti::mqtt::listener
