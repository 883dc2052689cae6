// Bridge: the port to the messages of an MQTT broker, as one of its clients.
//
// One thread, the bridge's own, has the connection, makes it again when it is lost
// (reconnect_backoff.h), and calls sinks, `done`s and OnConnected. Publish never blocks: it puts
// the message into a bounded queue (outbox.h) and wakes that thread. What is promised of messages:
// README.md.
//
// Create, Subscribe, OnConnected, Start and Stop belong to one thread; Publish and Statistics may
// be called from any. Sinks and `done`s must not destroy the bridge.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "doors/mqtt/bridge/broker_options.h"
#include "mqtt/message_port.h"

namespace tutti::mqtt::bridge {

struct BridgeStatistics {
  bool connected = false;     // and subscribed
  uint64_t connects = 0;      // how often; all but the first are reconnects
  uint64_t tries_failed = 0;  // tries and connections that ended otherwise than by Stop
  // Outgoing.
  uint64_t published = 0;  // QoS 0 handed to the connection, QoS 1 acknowledged
  uint64_t refused = 0;    // by Publish: overloaded
  uint64_t failed = 0;     // taken by Publish, and not published: expired, denied, given up
  size_t waiting = 0, waiting_bytes = 0;  // in the queue and in flight
  // Incoming.
  uint64_t received = 0;     // all
  uint64_t redelivered = 0;  // of them those that the broker may have sent before
  uint64_t accepted = 0;     // by every sink
  uint64_t refused_by_sinks = 0;
  uint64_t expired = 0;       // while sinks refused them
  uint64_t too_large = 0;     // larger than packet_bytes: acknowledged, and nobody's
  uint64_t unmatched = 0;     // no sink's: left by an earlier run's subscriptions
  size_t unacknowledged = 0;  // QoS 1 that the broker still holds for us
  Status last_failure;        // why the last try or connection ended; OK = none has
};

class Bridge final : public MessagePort {
 public:
  struct Dependencies {            // outlive the bridge
    Logger* log = nullptr;         // may be null
    const Clock* clock = nullptr;  // of real time: sockets and timers go by theirs
    uint64_t seed = 0;             // of the waits between tries: another on every server
  };

  // Reads the files that the options name. Errors: invalid_value, of the option at fault.
  static Result<std::unique_ptr<Bridge>> Create(BridgeOptions options,
                                                const Dependencies& dependencies);
  ~Bridge() override;  // Stop(0)

  // Besides the port's errors: request_too_large; draining, after Stop.
  Status Publish(Message message, Published done = nullptr) override;
  Status Subscribe(std::string filter, Sink sink) override;
  // Called after each connect, when the subscriptions are made: the place to say "online", which
  // the Will has unsaid meanwhile.
  void OnConnected(std::function<void()> connected);

  // Begins to connect, and never gives up. A broker that cannot be reached is no error of Start.
  void Start();
  // Takes no more messages, sends what waits, waits for the receipts of what was offered, and
  // leaves without the Will being published; all that for at most `limit`. Error:
  // deadline_exceeded, with how many messages were not published (their `done` was told draining).
  Status Stop(Duration limit);

  BridgeStatistics Statistics() const;

 private:
  class Loop;
  explicit Bridge(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace tutti::mqtt::bridge
