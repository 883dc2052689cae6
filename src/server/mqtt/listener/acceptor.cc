#include "server/mqtt/listener/acceptor.h"

#include <string>
#include <utility>

#include "server/mqtt/listener/connection.h"
#include "server/mqtt/listener/websocket.h"

namespace tutti::mqtt::listener {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr int kSendBufferBytes = 64 << 10;  // the system's own grows to megabytes for who stopped

}  // namespace

Acceptor::Acceptor(Loop& loop, std::shared_ptr<sockets::TlsContext> tls,
                   const access::WebRule* websocket)
    : loop_(loop),
      tls_(std::move(tls)),
      websocket_(websocket),
      acceptor_(loop.context(),
                {.has_room = [this] { return loop_.connections() < loop_.limits.connections; },
                 .take = [this](tcp::acceptor& from) { return Take(from); }}) {}

Status Acceptor::Listen(const boost::asio::ip::address& address, int port, const char* param) {
  Status status = acceptor_.Listen(tcp::endpoint(address, static_cast<uint16_t>(port)),
                                   address.to_string(), param);
  return status.ok() ? status : std::move(status).WithContext("MQTT");
}

error_code Acceptor::Take(tcp::acceptor& from) {
  tcp::socket socket(loop_.context());
  error_code ec;
  from.accept(socket, ec);
  if (!ec) Hand(std::move(socket));
  return ec;
}

void Acceptor::Hand(sockets::Transport::Socket socket) {
  error_code ec;
  const auto endpoint = socket.remote_endpoint(ec);
  if (ec) return;
  const std::string address = endpoint.address().to_string();
  if (!loop_.Enter(address)) return;  // closed with the socket
  sockets::Tune(socket, loop_.limits.reader_stall, kSendBufferBytes);
  auto connection = std::make_shared<Connection>(
      loop_,
      websocket_ != nullptr ? MakeWebSocket(std::move(socket), tls_, *websocket_)
                            : sockets::MakeTransport(std::move(socket), tls_),
      address);
  loop_.Add(connection);
  connection->Start();
}

}  // namespace tutti::mqtt::listener
