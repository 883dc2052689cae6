// Transport: one accepted connection as a stream of MQTT's bytes, over TCP, TLS or WebSocket. Used
// on the io thread only; handlers run there.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"

namespace tutti::mqtt::listener {

class Transport {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  // ok = false: the connection is of no further use (closed by the peer, reset, or by us).
  using Handler = std::function<void(bool ok, size_t bytes)>;

  virtual ~Transport() = default;
  virtual void Handshake(Handler done) = 0;
  // At most one read and one write at a time. The memory must live until the handler ran.
  virtual void ReadSome(char* data, size_t size, Handler done) = 0;
  virtual void WriteSome(const char* data, size_t size, Handler done) = 0;
  virtual void ShutdownSend() = 0;  // the peer reads to the end of what was written
  virtual void Close() = 0;
};

using TlsContext = boost::asio::ssl::context;

// TLS 1.2 and above, with the certificate chain and key of these PEM files. Errors: invalid_value,
// of the option tls-cert or tls-key; also of a key that others can read.
Result<std::shared_ptr<TlsContext>> LoadTls(const std::string& cert_file,
                                            const std::string& key_file);

// `tls` null: without. `websocket`: MQTT in binary messages of WebSocket (section 6 of both
// versions), at /mqtt, with the sub-protocol mqtt; all else is answered in HTTP and closed.
std::shared_ptr<Transport> MakeTransport(Transport::Socket socket, std::shared_ptr<TlsContext> tls,
                                         bool websocket);

}  // namespace tutti::mqtt::listener
