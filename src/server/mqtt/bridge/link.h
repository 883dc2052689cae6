// Link: one connection to the broker as a byte stream, over TCP or TLS. Used on the bridge's thread
// only; handlers run there.
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

namespace tutti::mqtt::bridge {

class Link {
 public:
  struct Handlers {
    std::function<void()> opened;  // connected, and the broker's certificate is valid
    std::function<void(std::string_view)> received;
    std::function<void()> sent;  // some bytes were sent
    // The link is of no further use. Called once; not after Close().
    std::function<void(const Status&)> closed;
  };

  virtual ~Link() = default;
  // Looks up the address, connects, and makes the TLS handshake.
  virtual void Open() = 0;
  virtual void Send(std::string bytes) = 0;
  virtual size_t unsent() const = 0;
  // While reading is off, the broker's data stays in the socket, which slows the broker down.
  virtual void SetReading(bool reading) = 0;
  // Closes the link; no handler is called any more.
  virtual void Close() = 0;
};

// `tls`: null for plain TCP, which is allowed to loopback addresses only, whatever the host name
// resolves to.
std::shared_ptr<Link> MakeLink(boost::asio::io_context& io, const Address& address,
                               boost::asio::ssl::context* tls, Link::Handlers handlers);

}  // namespace tutti::mqtt::bridge
