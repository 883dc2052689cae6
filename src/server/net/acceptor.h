// Acceptor: one listening socket. Accepts the next connection while there is room for one, and
// retries after a pause if accepting failed. And the address on which to listen.
//
// Used on the context's thread, except Listen(), which is called before the context runs, and the
// destructor, which runs after it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace tutti::sockets {

class Acceptor {
 public:
  struct Owner {                     // both on the context's thread
    std::function<bool()> has_room;  // for one more connection
    // Accepts one connection without waiting, and keeps it; returns the result of accept(). If it
    // throws std::bad_alloc, the connection is closed.
    std::function<boost::system::error_code(boost::asio::ip::tcp::acceptor&)> take;
  };
  Acceptor(boost::asio::io_context& context, Owner owner);
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // `host`: how an error names the address. Errors: io_error, of the option `param`.
  Status Listen(const boost::asio::ip::tcp::endpoint& endpoint, const std::string& host,
                const char* param);
  const boost::asio::ip::tcp::endpoint& bound() const { return bound_; }  // after Listen()

  // Accepts connections while there is room; call it again when there is room again. At most one
  // accept is pending.
  void Accept();
  void Close();

 private:
  void AcceptLater();
  bool TryTake();

  const Owner owner_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer retry_;
  bool waiting_ = false;
  boost::asio::ip::tcp::endpoint bound_;
};

// Sets up an accepted socket. `reader_stall`: after how long without progress its owner gives up a
// peer that does not read. `send_buffer_bytes`: SO_SNDBUF; 0 = the system's, which grows to
// megabytes for a reader that stopped.
void Tune(boost::asio::ip::tcp::socket& socket, Duration reader_stall, int send_buffer_bytes);

// An address in digits, or "localhost". Errors: those of access::BadHost().
Result<boost::asio::ip::address> ParseAddress(const std::string& host);

}  // namespace tutti::sockets
