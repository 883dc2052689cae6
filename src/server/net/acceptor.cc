#include "server/net/acceptor.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>
#include <new>
#include <utility>

#include "base/memory_reserve.h"
#include "server/access/listen_rules.h"

namespace tutti::sockets {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr int kBacklog = 1024;
constexpr auto kPause = std::chrono::milliseconds(50);  // after a failure such as no descriptors

// "mqtt.websocket_port" as it is on the command line.
std::string FlagOf(std::string param) {
  for (char& c : param) {
    if (c == '.' || c == '_') c = '-';
  }
  return "--" + param;
}

}  // namespace

Acceptor::Acceptor(boost::asio::io_context& context, Owner owner)
    : owner_(std::move(owner)), acceptor_(context), retry_(context) {}

Status Acceptor::Listen(const tcp::endpoint& endpoint, const std::string& host, const char* param) {
  error_code ec;
  acceptor_.open(endpoint.protocol(), ec);
  if (!ec) acceptor_.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) acceptor_.bind(endpoint, ec);
  if (!ec) acceptor_.listen(kBacklog, ec);
  if (!ec) acceptor_.non_blocking(true, ec);
  if (!ec) bound_ = acceptor_.local_endpoint(ec);
  if (!ec) return OkStatus();
  // Not invalid_value: whether the bind succeeds depends on the other processes and on the user's
  // rights.
  const bool taken = ec == boost::asio::error::address_in_use;
  return Unavailable("io_error", "cannot listen on " + host + " port " +
                                     std::to_string(endpoint.port()) + ": " + ec.message() +
                                     (taken ? "; give another " + FlagOf(param) : ""))
      .WithParam(param);
}

void Acceptor::Accept() {
  if (waiting_ || !acceptor_.is_open() || !owner_.has_room()) return;
  // Waits and accepts in two steps, because async_accept allocates memory for the accepted socket
  // where std::bad_alloc cannot be caught.
  try {
    acceptor_.async_wait(tcp::acceptor::wait_read, [this](error_code ec) {
      waiting_ = false;
      if (!acceptor_.is_open()) return;
      if (ec || !TryTake()) return AcceptLater();
      Accept();
    });
    waiting_ = true;
  } catch (const std::bad_alloc&) {
    AcceptLater();
  }
}

void Acceptor::AcceptLater() {
  // Without the retry, no connection might ever be accepted again. The timer needs a hundred bytes,
  // so the io thread may wait for them.
  UntilMemory([this] {
    retry_.expires_after(kPause);
    retry_.async_wait([this](error_code cancelled) {
      if (!cancelled) Accept();
    });
  });
}

// False when there is no memory, or no descriptor, for a connection.
bool Acceptor::TryTake() {
  try {
    const error_code ec = owner_.take(acceptor_);
    return !ec || ec == boost::asio::error::would_block;  // a client that left meanwhile
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void Acceptor::Close() {
  error_code ignored;
  acceptor_.close(ignored);
  retry_.cancel();
}

void Tune(tcp::socket& socket, Duration reader_stall, int send_buffer_bytes) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(boost::asio::socket_base::keep_alive(true), ignored);
  if (send_buffer_bytes > 0) {
    socket.set_option(boost::asio::socket_base::send_buffer_size(send_buffer_bytes), ignored);
  }
  // A peer that vanished; a little later than the owner's own rule for readers, which knows why.
  const Duration patience = reader_stall + std::chrono::seconds(5);
  const auto ms = static_cast<unsigned>(WholeMillis(patience));
  setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

Result<boost::asio::ip::address> ParseAddress(const std::string& host) {
  boost::system::error_code ec;
  const auto address = boost::asio::ip::make_address(access::AddressOf(host), ec);
  if (ec) return access::BadHost();
  return address;
}

}  // namespace tutti::sockets
