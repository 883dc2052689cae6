// Acceptor: one listening socket, and when it is asked for the next connection: while there is room
// for one, and a little later where the last could not be taken.
//
// All but Listen() before the context runs, and the destructor after it has, belongs to the
// context's thread.
#pragma once

#include <boost/asio/io_context.hpp>
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
    // Accepts one, without waiting, and keeps it; what accept() said. Where it throws
    // std::bad_alloc, the client sees its connection closed.
    std::function<boost::system::error_code(boost::asio::ip::tcp::acceptor&)> take;
  };
  Acceptor(boost::asio::io_context& context, Owner owner);
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // `host`: how an error names the address. Errors: io_error, of the option `param`.
  Status Listen(const boost::asio::ip::tcp::endpoint& endpoint, const std::string& host,
                const char* param);
  const boost::asio::ip::tcp::endpoint& bound() const { return bound_; }  // after Listen()

  // Takes what comes for as long as there is room; to be called again when there is some again. At
  // most one accept waits.
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

}  // namespace tutti::sockets
