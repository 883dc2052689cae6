// Outbox: the messages that wait for the broker, and those that it has not acknowledged yet.
//
// Push and load: any thread, never blocking. All else: the bridge's thread. It outlives
// connections: what was sent on one and not acknowledged is sent again on the next, in its old
// order and before everything newer. Strictly first in, first out: a QoS 0 message behind a QoS 1
// that has to wait for the broker waits too, so that the order of a topic holds across both.
//
// Bounded in messages and bytes, those in flight included. QoS 0 is at most once: while there is no
// connection none is taken, and those that wait are given up when it is lost.
#pragma once

#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "doors/mqtt/bridge/refused_topics.h"
#include "mqtt/message_port.h"
#include "mqtt/reason_code.h"

namespace tutti::mqtt::bridge {

struct OutboxLimits {
  size_t messages = 10'000;
  size_t bytes = 64 << 20;
};

// What a broker takes, as CONNACK says.
struct BrokerTakes {
  Version version = Version::k5;
  size_t in_flight = 20;          // QoS 1 messages at once, at most 60,000
  size_t packet_bytes = 1 << 20;  // of one packet
  bool session_resumed = false;   // it remembers what was sent on the last connection
  bool retained = true;           // it keeps retained messages
  bool qos1 = true;
};

class Outbox {
 public:
  struct Load {
    size_t messages = 0, bytes = 0;
  };

  explicit Outbox(const OutboxLimits& limits) : limits_(limits) {}

  // Takes a message that CheckMessage() lets pass. Error, and then `done` is not called: overloaded
  // (full, or QoS 0 without a connection); draining (after Seal).
  Status Push(Message message, MessagePort::Published done);
  Load load() const;

  // --- the bridge's thread ---
  void Connected(const BrokerTakes& takes);
  void Lost();
  // Appends the next packet that may be sent to `out`. False: none waits, or the window is full, or
  // there is no connection. Tells those that have expired or that this broker does not take.
  bool SendNext(TimePoint now, std::string& out);
  // Of a message in flight; else "".
  std::string TopicOf(uint16_t packet_id) const;
  // The broker does not let us publish there: messages for it are told so, for a while.
  void LeaveAlone(const std::string& topic, TimePoint now) { refused_topics_.Add(topic, now); }
  // False: no such message is in flight.
  bool Acknowledge(uint16_t packet_id, const Status& status);
  void Seal();  // Push refuses from now on; what waits is still sent
  // Seals, and tells everything that still waits `why`. Gives how many those were.
  size_t Close(const Status& why);

  // Any thread.
  uint64_t published() const { return published_; }  // QoS 0 sent, QoS 1 acknowledged well
  uint64_t failed() const { return failed_; }        // taken, and then told anything but OK
  uint64_t refused() const { return refused_; }      // not taken

 private:
  struct Item {
    Message message;
    MessagePort::Published done;
    size_t bytes = 0;
    uint16_t packet_id = 0;  // not 0: it was sent on an earlier connection
  };

  std::deque<Item>::const_iterator InFlight(uint16_t packet_id) const;
  // Why a message is not sent although it might be now, if there is a reason.
  Status Obstacle(const Message& message, TimePoint now) const;
  // The next that waits and need not be told something else first.
  std::optional<Item> Pop(TimePoint now);
  // Says to whoever published what became of it, after room was made.
  void Tell(Item item, const Status& status);
  uint16_t TakePacketId();

  const OutboxLimits limits_;

  // Bridge's thread.
  BrokerTakes takes_;
  RefusedTopics refused_topics_;
  std::deque<Item> in_flight_;  // in the order they were sent
  std::bitset<65536> used_;     // packet ids of in_flight_, and of those to be sent again
  uint16_t last_id_ = 0;

  std::atomic<uint64_t> published_ = 0, failed_ = 0, refused_ = 0;

  mutable Mutex mutex_;
  std::deque<Item> waiting_ GUARDED_BY(mutex_);
  Load load_ GUARDED_BY(mutex_);  // of waiting_ and in_flight_
  bool connected_ GUARDED_BY(mutex_) = false;
  bool sealed_ GUARDED_BY(mutex_) = false;
};

}  // namespace tutti::mqtt::bridge
