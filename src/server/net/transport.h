// Transport: one accepted connection as a byte stream, plain or TLS; servers add further kinds.
// Used on its io thread only; handlers run there.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "server/net/tls.h"

namespace tutti::sockets {

class Transport {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  // ok = false: the connection is of no further use (closed by the peer, reset, or by us).
  using Handler = std::function<void(bool ok, size_t bytes)>;

  virtual ~Transport() = default;
  virtual void Handshake(Handler done) = 0;
  // Reason of a failed handshake; empty if the peer just disconnected.
  virtual std::string HandshakeFault() const { return ""; }
  // The client's certificate, after a successful handshake; nothing if it had none.
  virtual std::optional<access::ClientCertificate> Certificate() { return std::nullopt; }
  // At most one read and one write at a time. The memory must live until the handler ran.
  virtual void ReadSome(char* data, size_t size, Handler done) = 0;
  virtual void WriteSome(const char* data, size_t size, Handler done) = 0;
  // Detects whether a peer whose reads have ended has left, or has only shut its sending side:
  // calls `gone` if the peer resets the connection, as one that left does when it is written to, or
  // has acknowledged no written byte for `silence`. Called at most once, also when this transport
  // is closed. Never called for a WebSocket, where an end always means that the peer has left.
  virtual void AwaitGone(Duration /*silence*/, std::function<void()> /*gone*/) {}
  virtual void ShutdownSend() = 0;     // the peer reads to the end of what was written
  virtual void Close(bool reset) = 0;  // reset: what was not sent is thrown away
};

// `tls` null: plain.
std::shared_ptr<Transport> MakeTransport(Transport::Socket socket,
                                         const std::shared_ptr<TlsContext>& tls);

}  // namespace tutti::sockets
