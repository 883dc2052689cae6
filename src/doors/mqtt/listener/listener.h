// Listener: the embedded listener for MQTT 3.1.1 and 5, a broker so small that it serves only
// Tutti's own topics. Clients log in, publish and subscribe within their jail; this process speaks
// with them through MessagePort.
//
// One io thread owns all connections, sessions and retained messages. Subscribe (of the port),
// Start and Stop belong to one thread; Publish may be called from any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "doors/mqtt/listener/authenticator.h"
#include "doors/mqtt/listener/limits.h"
#include "mqtt/message_port.h"

namespace tutti::mqtt::listener {

struct ListenerOptions {
  std::string host = "127.0.0.1";  // an address; "localhost" = 127.0.0.1
  // -1 = none, 0 = a free one. Over both ports the same: TLS where there is a certificate.
  int port = 1883;
  int websocket_port = -1;  // path /mqtt, sub-protocol mqtt
  // As HTTP has them (access/web_rule.h), for the handshake of WebSocket.
  std::vector<std::string> cors_origins, allowed_hosts;
  std::string tls_cert_file, tls_key_file;  // PEM; both or neither
  // PEM of the authorities whose certificates clients may show, beside them; empty: none is asked
  // for. Required: who shows none is refused in the handshake.
  std::string tls_client_ca_file;
  bool tls_client_required = false;
  Limits limits;
};

class Listener final : public MessagePort {
 public:
  struct Dependencies {  // all outlive the listener
    Authenticator* authenticator = nullptr;
    Logger* log = nullptr;  // may be null
    const Clock* clock = nullptr;
  };

  Listener(ListenerOptions options, Dependencies dependencies);
  ~Listener() override;  // Stop()

  // Errors: invalid_value (address, TLS files, an address of a network without TLS), io_error.
  Status Start();
  int port() const;            // after Start(); -1 = none
  int websocket_port() const;  // likewise

  // Tells every client that the server ends (0x8B), gives them a second to read it, closes, joins.
  void Stop();

  // --- MessagePort ---
  // Once it is stopped: unavailable, draining. At most 16,384 messages or 64 MiB wait for the
  // thread.
  Status Publish(Message message, Published done = nullptr) override;
  Status Subscribe(std::string filter, Sink sink) override;

  // Ends the connections of who logged in with that credential (Principal::credential) and is
  // nobody any more, with 0x87. Any thread; does not wait.
  void Revoke(std::string credential);

  int connections() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::mqtt::listener
