// Link: one connection to the broker as bytes, over TCP or TLS. The bridge's thread only; handlers
// run there.
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
    std::function<void()> opened;  // connected, and the broker's certificate is good
    std::function<void(std::string_view)> received;
    std::function<void()> sent;  // less is unsent than was
    // It is of no further use. Once; not after Close().
    std::function<void(const Status&)> closed;
  };

  virtual ~Link() = default;
  // Looks up, connects, greets.
  virtual void Open() = 0;
  virtual void Send(std::string bytes) = 0;
  virtual size_t unsent() const = 0;
  // While it is not, what the broker sends stays in the socket, and the broker feels that.
  virtual void SetReading(bool reading) = 0;
  // No handler is called any more.
  virtual void Close() = 0;
};

// `tls` is null for a connection in the clear, which goes to loopback addresses alone, whatever the
// name of the host leads to.
std::shared_ptr<Link> MakeLink(boost::asio::io_context& io, const Address& address,
                               boost::asio::ssl::context* tls, Link::Handlers handlers);

}  // namespace tutti::mqtt::bridge
