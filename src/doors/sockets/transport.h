// Transport: one accepted connection as a stream of bytes, plain or TLS; doors bring further ones.
// Used on its io thread only; handlers run there.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
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
  // For an owner whose reads have ended, which a peer that left and one that only closed its
  // sending side do alike: calls `gone` where the peer resets the connection, as one that left does
  // when it is written to, or has acknowledged nothing of what was written to it for `silence`. At
  // most once, also when this is closed. Of a WebSocket an end is always the peer's leaving: never.
  virtual void AwaitGone(Duration /*silence*/, std::function<void()> /*gone*/) {}
  virtual void ShutdownSend() = 0;     // the peer reads to the end of what was written
  virtual void Close(bool reset) = 0;  // reset: what was not sent is thrown away
};

// `tls` null: plain.
std::shared_ptr<Transport> MakeTransport(Transport::Socket socket,
                                         const std::shared_ptr<TlsContext>& tls);

}  // namespace tutti::sockets
