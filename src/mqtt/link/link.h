// Link: one connection of a client to an MQTT server as a byte stream, over TCP or TLS. Used by the
// one thread that runs its io_context; handlers run there.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "mqtt/address.h"

namespace boost::asio::ssl {
class context;
}

namespace tutti::mqtt {

class Link {
 public:
  struct Handlers {
    std::function<void()> opened;  // connected, and the server's certificate is valid
    std::function<void(std::string_view)> received;
    std::function<void()> sent;  // some bytes were sent
    // The link is of no further use. Called once; not after Close().
    std::function<void(const Status&)> closed;
  };
  struct Options {
    // Reasons of errors: no connection; no TLS; a connection that has ended.
    const char *unreachable, *tls, *lost;
    // Whether a name may lead to another machine without TLS.
    bool plain_beyond_loopback = false;
  };

  virtual ~Link() = default;
  // Looks up the address, connects, and makes the TLS handshake.
  virtual void Open() = 0;
  virtual void Send(std::string bytes) = 0;
  virtual size_t unsent() const = 0;
  // While reading is off, the server's data stays in the socket, which slows the server down.
  virtual void SetReading(bool reading) = 0;
  // Closes the link; no handler is called any more.
  virtual void Close() = 0;
};

// `tls`: null for plain TCP. Outlives the link, as `io` does.
std::shared_ptr<Link> MakeLink(boost::asio::io_context& io, const Address& address,
                               boost::asio::ssl::context* tls, const Link::Options& options,
                               Link::Handlers handlers);

// A TLS context for links: TLS 1.2 and above; the server's certificate and name are verified, by
// the authorities of `ca_file` (PEM) or, if it is empty, those of the system. Any thread. Error:
// invalid_value.
Result<std::shared_ptr<boost::asio::ssl::context>> MakeLinkTls(const std::string& ca_file);

}  // namespace tutti::mqtt
