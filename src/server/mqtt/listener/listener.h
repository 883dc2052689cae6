// Listener: an embedded MQTT 3.1.1 and 5 server, a minimal broker for Tutti's own topics. Clients
// log in, and publish and subscribe within the topics of their Principal; this process exchanges
// messages with them through MessagePort.
//
// One io thread owns all connections, sessions and retained messages. Subscribe (of the port),
// Start and Stop must be called by one thread; Publish by any.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "mqtt/message_port.h"
#include "mqtt/packet.h"
#include "server/mqtt/listener/authenticator.h"
#include "server/mqtt/listener/limits.h"

namespace tutti::mqtt::listener {

struct ListenerOptions {
  std::string host = "127.0.0.1";  // an address; "localhost" = 127.0.0.1
  // -1 = none, 0 = any free port. Both ports are equivalent: with TLS if there is a certificate.
  int port = 1883;
  int websocket_port = -1;  // path /mqtt, sub-protocol mqtt
  // As for HTTP (access/listen_rules.h), for the WebSocket handshake.
  std::vector<std::string> cors_origins, allowed_hosts;
  std::string tls_cert_file, tls_key_file;  // PEM; both or neither
  // PEM file of authorities for client certificates, in addition to the server's certificate and
  // key; empty: no certificate is requested. With `tls_client_required`, the handshake fails for
  // clients without a certificate.
  std::string tls_client_ca_file;
  bool tls_client_required = false;
  Limits limits;
};

// A client that has logged in.
struct ClientInfo {
  std::string client_id, user, tenant;
  Version version = Version::k5;
  TimePoint since{};  // when it logged in
  size_t subscriptions = 0;
};

struct ClientList {
  std::vector<ClientInfo> clients;  // those that logged in last, the newest first
  size_t left_out = 0;              // others that have logged in
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
  int websocket_port() const;  // after Start(); -1 = none

  // Reads the TLS files that `options` name. The result makes connections that are accepted from
  // then on use them; call it before Stop(). Errors: those of sockets::LoadServerTls; invalid_value
  // if TLS would be turned on or off.
  Result<std::function<void()>> LoadTls(const ListenerOptions& options);

  // Sends every client a DISCONNECT (0x8B), allows a second for reading it, closes all connections
  // and joins the thread.
  void Stop();

  // After Stop(): unavailable, draining. At most 16,384 messages or 64 MiB may wait for the io
  // thread.
  Status Publish(Message message, Published done = nullptr) override;
  Status Subscribe(std::string filter, Sink sink) override;

  // Ends connections that logged in with this credential (Principal::credential) if the credential
  // is no longer valid, with 0x87. Any thread; does not wait.
  void Revoke(std::string credential);

  int connections() const;
  // Lists at most `max` clients. `done` runs on the io thread; never, if the listener does not run.
  // Any thread; does not wait.
  void ListClients(size_t max, std::function<void(ClientList)> done);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::mqtt::listener
