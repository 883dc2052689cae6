// A connection to an MQTT server: its bytes (MqttTransport), and an MQTT 5 client on it
// (MqttConnection). Blocking, with a time limit for each wait; used by one thread at a time.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "client/mqtt/session.h"
#include "mqtt/address.h"

namespace tutti::client {

// One connection to an MQTT server as a byte stream: a mqtt::Link for callers that block.
class MqttTransport {
 public:
  virtual ~MqttTransport() = default;

  // Sends all bytes. Errors: unreachable, if the peer is gone or accepts nothing for 30 s.
  virtual Status Send(std::string_view bytes) = 0;
  // Returns received bytes, about 64 KiB at most; "" if none arrive within `wait`. Errors:
  // unreachable, if the peer has closed.
  virtual Result<std::string> Receive(std::chrono::milliseconds wait) = 0;
};

// Over TLS the server's certificate and name are verified, by the authorities of `ca_file` (PEM)
// or, without one, those of the system. Errors: unreachable; tls_failed; invalid_value, of
// `ca_file`.
Result<std::unique_ptr<MqttTransport>> OpenMqttTransport(const mqtt::Address& address,
                                                         const std::string& ca_file);

struct MqttOptions {
  mqtt::Address address;
  std::string ca_file;  // PEM; empty: the authorities of the system
  MqttSessionOptions session;
  Duration patience = std::chrono::seconds(30);  // for CONNACK and SUBACK
};

// Nothing happens between calls: to stay connected, call Receive() within the keep-alive time.
class MqttConnection {
 public:
  // Called a few times a second; returning true ends the call with `cancelled`. May be empty.
  using Stopped = std::function<bool()>;

  // Connects and logs in. Errors: those of OpenMqttTransport; invalid_value (a user or password
  // that MQTT cannot carry, or a password for another machine without TLS); unauthenticated;
  // unavailable.
  static Result<std::unique_ptr<MqttConnection>> Open(const MqttOptions& options,
                                                      const Stopped& stopped = nullptr);
  // Open() over any transport. `clock` outlives the connection.
  static Result<std::unique_ptr<MqttConnection>> Over(std::unique_ptr<MqttTransport> transport,
                                                      const MqttOptions& options,
                                                      const Clock& clock,
                                                      const Stopped& stopped = nullptr);
  ~MqttConnection();  // sends DISCONNECT

  // Waits until the server has granted the subscription. `retained`: also receive the messages that
  // the server keeps there. Errors: insufficient_scope; those of Receive().
  Status Subscribe(const std::string& filter, const Stopped& stopped = nullptr,
                   bool retained = false);

  // Queues a message of QoS 1; it is sent when its turn comes, while Receive() or Flush() runs.
  Status Send(MqttSend message) { return session_.Push(std::move(message)); }
  size_t DropUnsent() { return session_.DropUnsent(); }
  // Sends no message before `when` (retry-after).
  void HoldUntil(TimePoint when) { session_.HoldUntil(when); }

  struct Arrivals {
    std::vector<mqtt::Publish> messages;  // in the order they came
    // Sent messages that the server refused, with the reason (session.h).
    std::vector<std::pair<MqttSend, Status>> refused;
    bool empty() const { return messages.empty() && refused.empty(); }
  };
  // Waits until `until` for messages and refusals, and returns as soon as there are any. Errors:
  // cancelled; unreachable, connection_closed, bad_response: the connection is of no further use.
  Result<Arrivals> Receive(TimePoint until, const Stopped& stopped = nullptr);

  // Waits until every sent message is acknowledged or refused. Errors: those of Receive();
  // unreachable when `patience` is over; the first refusal. Messages that arrive meanwhile are
  // returned by Receive().
  Status Flush(Duration patience, const Stopped& stopped = nullptr);

 private:
  MqttConnection(std::unique_ptr<MqttTransport> transport, const MqttOptions& options,
                 const Clock& clock)
      : options_(options),
        clock_(clock),
        transport_(std::move(transport)),
        session_(options.session) {}
  Status LogIn(const Stopped& stopped);
  // Sends the messages that are due, then waits once for bytes, at most until `until`.
  Status Turn(TimePoint until, const Stopped& stopped);
  Status Exchange(TimePoint until);
  Status SendOut();
  void TakeRefusals();

  const MqttOptions options_;
  const Clock& clock_;
  const std::unique_ptr<MqttTransport> transport_;
  MqttSession session_;
  std::string out_;
  Arrivals arrived_;
  Status broken_;  // not OK: why the connection is of no further use
};

}  // namespace tutti::client
