// Bridge: the MessagePort of an MQTT broker, to which it connects as a client.
//
// The bridge's own thread owns the connection, opens it again when it is lost (ReconnectBackoff),
// and calls sinks, `done` callbacks and OnConnected. Publish never blocks:
// it puts the message into a bounded queue (outbox.h) and wakes that thread. For the guarantees of
// delivery see README.md.
//
// Create, Subscribe, OnConnected, Start and Stop must be called by one thread; Publish and
// Statistics by any. Sinks and `done` callbacks must not destroy the bridge.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "mqtt/message_port.h"
#include "server/mqtt/bridge/broker_options.h"

namespace tutti::mqtt::bridge {

struct BridgeStatistics {
  bool connected = false;     // and subscribed
  uint64_t connects = 0;      // number of connects; all but the first are reconnects
  uint64_t tries_failed = 0;  // attempts and connections that ended other than by Stop()
  // Outgoing.
  uint64_t published = 0;  // QoS 0 given to the connection, QoS 1 acknowledged
  uint64_t refused = 0;    // by Publish: overloaded
  uint64_t failed = 0;     // accepted by Publish, but not published: expired, denied, dropped
  size_t waiting = 0, waiting_bytes = 0;  // in the queue and in flight
  // Incoming.
  uint64_t received = 0;     // all
  uint64_t redelivered = 0;  // those that the broker may have sent before
  uint64_t accepted = 0;     // by every sink
  uint64_t refused_by_sinks = 0;
  uint64_t expired = 0;       // while sinks refused them
  uint64_t too_large = 0;     // larger than packet_bytes: acknowledged and dropped
  uint64_t unmatched = 0;     // no sink: from subscriptions of an earlier run
  size_t unacknowledged = 0;  // QoS 1 messages that the broker still keeps
  Status last_failure;        // why the last attempt or connection ended; OK = none has
};

class Bridge : public MessagePort {
 public:
  struct Dependencies {            // outlive the bridge
    Logger* log = nullptr;         // may be null
    const Clock* clock = nullptr;  // real time, as used by sockets and timers
    uint64_t seed = 0;             // of the delays between attempts; different on every server
  };

  // Reads the files named in the options. Errors: invalid_value, naming the option at fault. The
  // destructor is Stop(0). Additional errors of Publish: request_too_large; draining, after Stop().
  static Result<std::unique_ptr<Bridge>> Create(BridgeOptions options,
                                                const Dependencies& dependencies);
  // `connected` is called after each connect, when the subscriptions are made, to publish the
  // online status that the Will has replaced meanwhile.
  virtual void OnConnected(std::function<void()> connected) = 0;

  // Starts connecting, and tries forever. An unreachable broker is no error of Start().
  virtual void Start() = 0;
  // Accepts no more messages, sends waiting ones, waits for the receipts of offered ones, and
  // disconnects without the Will, all within `limit`. Error: deadline_exceeded, with the number of
  // unpublished messages (their `done` gets draining).
  virtual Status Stop(Duration limit) = 0;

  virtual BridgeStatistics Statistics() const = 0;
};

}  // namespace tutti::mqtt::bridge
