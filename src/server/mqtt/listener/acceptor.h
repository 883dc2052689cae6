// Acceptor: one port of the listener; accepts its connections and passes them to the loop. Used by
// the io thread, except Listen(), which is called before the thread runs.
#pragma once

#include <memory>

#include "base/status.h"
#include "server/access/web_rule.h"
#include "server/mqtt/listener/loop.h"
#include "server/net/acceptor.h"
#include "server/net/tls.h"
#include "server/net/transport.h"

namespace tutti::mqtt::listener {

class Acceptor {
 public:
  // `tls`: null for plain TCP. `websocket`: the rule for WebSocket handshakes, which outlives the
  // loop's connections; null: MQTT without WebSocket.
  Acceptor(Loop& loop, std::shared_ptr<sockets::TlsContext> tls, const access::WebRule* websocket);

  // Error: io_error, naming the option `param`.
  Status Listen(const boost::asio::ip::address& address, int port, const char* param);
  int port() const { return acceptor_.bound().port(); }  // after Listen()

  // Continues accepting, unless it already does or there are too many connections.
  void Accept() { acceptor_.Accept(); }
  void Close() { acceptor_.Close(); }

 private:
  boost::system::error_code Take(boost::asio::ip::tcp::acceptor& from);
  void Hand(sockets::Transport::Socket socket);

  Loop& loop_;
  const std::shared_ptr<sockets::TlsContext> tls_;
  const access::WebRule* const websocket_;
  sockets::Acceptor acceptor_;
};

}  // namespace tutti::mqtt::listener
