// Transport: one accepted connection as bytes, plain or TLS. Used on its io thread only; handlers
// run there.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::http {

class Transport {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  // ok = false: the connection is of no further use (closed by the peer, reset, or by us).
  using Handler = std::function<void(bool ok, size_t bytes)>;

  virtual ~Transport() = default;
  virtual void Handshake(Handler done) = 0;
  // Why a handshake failed, after it did; empty where the peer just went away.
  virtual std::string HandshakeFault() const { return ""; }
  // At most one read and one write at a time. The memory must live until the handler ran.
  virtual void ReadSome(char* data, size_t size, Handler done) = 0;
  virtual void WriteSome(const char* data, size_t size, Handler done) = 0;
  virtual void ShutdownSend() = 0;     // the peer reads to the end of what was written
  virtual void Close(bool reset) = 0;  // reset: what was not sent is thrown away
};

std::shared_ptr<Transport> MakePlainTransport(Transport::Socket socket);

// The certificate and key of a listener. Any thread after Load.
class TlsContext {
 public:
  // TLS 1.2 and above. Errors: invalid_value, naming the file.
  static Result<std::shared_ptr<TlsContext>> Load(const std::string& cert_file,
                                                  const std::string& key_file);
  virtual ~TlsContext() = default;
  virtual std::shared_ptr<Transport> Wrap(Transport::Socket socket) = 0;
};

}  // namespace tutti::http
