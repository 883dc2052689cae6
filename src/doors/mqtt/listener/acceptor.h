// Acceptor: one listening socket and what it hands on. The io thread's, but for Listen() before
// that runs.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>

#include "base/status.h"
#include "doors/mqtt/listener/loop.h"
#include "doors/mqtt/listener/transport.h"

namespace tutti::mqtt::listener {

class Acceptor {
 public:
  Acceptor(Loop& loop, std::shared_ptr<TlsContext> tls, bool websocket);

  // Error: io_error, of the option `param`.
  Status Listen(const boost::asio::ip::address& address, int port, const char* param);
  int port() const { return port_; }

  void Accept();  // goes on unless it does or there are too many connections
  void Close();

 private:
  bool TryTake();
  void Hand(Transport::Socket socket);

  Loop& loop_;
  const std::shared_ptr<TlsContext> tls_;
  const bool websocket_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer retry_;
  bool waiting_ = false;
  int port_ = -1;
};

}  // namespace tutti::mqtt::listener
