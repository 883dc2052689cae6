// MqttConnection: an MQTT 5 client on one connection. Blocking, with a time limit for each wait;
// used by one thread at a time. Nothing happens between calls: to stay connected, call Receive()
// within the keep-alive time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "client/mqtt/session.h"
#include "client/mqtt/transport.h"
#include "mqtt/address.h"

namespace tutti::client {

struct MqttOptions {
  mqtt::Address address;
  std::string ca_file;  // PEM; empty: the authorities of the system
  MqttSessionOptions session;
  Duration patience = std::chrono::seconds(30);  // for CONNACK and SUBACK
};

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
