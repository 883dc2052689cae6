// Transport: one accepted connection as a stream of bytes, plain or TLS; doors bring further ones.
// Used on its io thread only; handlers run there.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "doors/sockets/tls.h"

namespace tutti::sockets {

class Transport {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  // ok = false: the connection is of no further use (closed by the peer, reset, or by us).
  using Handler = std::function<void(bool ok, size_t bytes)>;

  virtual ~Transport() = default;
  virtual void Handshake(Handler done) = 0;
  // Why a handshake failed, after it did; empty where the peer just went away.
  virtual std::string HandshakeFault() const { return ""; }
  // What the client has shown, after a handshake that succeeded; nothing where it showed none.
  virtual std::optional<access::ClientCertificate> Certificate() { return std::nullopt; }
  // At most one read and one write at a time. The memory must live until the handler ran.
  virtual void ReadSome(char* data, size_t size, Handler done) = 0;
  virtual void WriteSome(const char* data, size_t size, Handler done) = 0;
  virtual void ShutdownSend() = 0;     // the peer reads to the end of what was written
  virtual void Close(bool reset) = 0;  // reset: what was not sent is thrown away
};

// `tls` null: plain.
std::shared_ptr<Transport> MakeTransport(Transport::Socket socket,
                                         const std::shared_ptr<TlsContext>& tls);

}  // namespace tutti::sockets
