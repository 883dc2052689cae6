// MqttConnection: a client of MQTT 5 on one connection: it says and hears messages. Blocking, each
// wait with a limit; one thread at a time, and nothing happens between calls: who means to stay
// calls Receive within the keep-alive time.
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
  // Asked a few times a second, and after each signal; true ends the call: cancelled. May be empty.
  using Stopped = std::function<bool()>;

  // Connects and logs in. Errors: those of OpenMqttTransport; invalid_value (a user or password
  // that MQTT cannot carry, or a password for another machine without TLS); unauthenticated;
  // unavailable.
  static Result<std::unique_ptr<MqttConnection>> Open(const MqttOptions& options,
                                                      const Stopped& stopped = nullptr);
  // The same over any transport. `clock` outlives the connection.
  static Result<std::unique_ptr<MqttConnection>> Over(std::unique_ptr<MqttTransport> transport,
                                                      const MqttOptions& options,
                                                      const Clock& clock,
                                                      const Stopped& stopped = nullptr);
  ~MqttConnection();  // DISCONNECT

  // Returns when the server has granted it. `retained`: what the server keeps there is received
  // too. Errors: insufficient_scope; as Receive.
  Status Subscribe(const std::string& filter, const Stopped& stopped = nullptr,
                   bool retained = false);

  // Queues a message of QoS 1; it leaves when its turn has come, while Receive or Flush runs.
  Status Send(MqttSend message) { return session_.Push(std::move(message)); }
  size_t DropUnsent() { return session_.DropUnsent(); }
  // Of all messages after this: none leaves before `when` (retry-after).
  void HoldUntil(TimePoint when) { session_.HoldUntil(when); }

  struct Arrivals {
    std::vector<mqtt::Publish> messages;  // in the order they came
    // Of those that were sent: refused, and why (session.h).
    std::vector<std::pair<MqttSend, Status>> refused;
    bool empty() const { return messages.empty() && refused.empty(); }
  };
  // What came by `until`; returns as soon as there is something. Errors: cancelled; unreachable,
  // connection_closed, bad_response: the connection is of no further use.
  Result<Arrivals> Receive(TimePoint until, const Stopped& stopped = nullptr);

  // Until all that was sent has been acknowledged or refused. Errors: as Receive; unreachable, when
  // `patience` is over; the first refusal. What came meanwhile is given by Receive.
  Status Flush(Duration patience, const Stopped& stopped = nullptr);

 private:
  MqttConnection(std::unique_ptr<MqttTransport> transport, const MqttOptions& options,
                 const Clock& clock)
      : options_(options),
        clock_(clock),
        transport_(std::move(transport)),
        session_(options.session) {}
  Status LogIn(const Stopped& stopped);
  // Sends what is due, and waits for bytes until `until` at most; once.
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
  Status broken_;  // why it is of no further use
};

}  // namespace tutti::client
