// Acceptor: one port of the listener, and what becomes of who connects to it. The io thread's, but
// for Listen() before that runs.
#pragma once

#include <memory>

#include "base/status.h"
#include "doors/access/web_rule.h"
#include "doors/mqtt/listener/loop.h"
#include "doors/sockets/acceptor.h"
#include "doors/sockets/tls.h"
#include "doors/sockets/transport.h"

namespace tutti::mqtt::listener {

class Acceptor {
 public:
  // `tls` null: without. `websocket`: who may ask for one, which outlives the loop's connections;
  // null: MQTT is spoken at once.
  Acceptor(Loop& loop, std::shared_ptr<sockets::TlsContext> tls, const access::WebRule* websocket);

  // Error: io_error, of the option `param`.
  Status Listen(const boost::asio::ip::address& address, int port, const char* param);
  int port() const { return acceptor_.bound().port(); }  // after Listen()

  void Accept() { acceptor_.Accept(); }  // goes on unless it does or there are too many connections
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
