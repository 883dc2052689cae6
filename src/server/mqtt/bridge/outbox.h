// Outbox: messages waiting to be sent to the broker, and sent messages that the broker has not
// acknowledged.
//
// Push() and load() may be called from any thread and never block; all other methods belong to the
// bridge's thread. The outbox outlives connections: messages that were sent but not acknowledged
// are sent again on the next connection, in their order and before newer ones. Strictly first in,
// first out: a QoS 0 message behind a waiting QoS 1 message waits too, so that the order within a
// topic holds across both.
//
// Bounded in messages and bytes, including those in flight. QoS 0 is at most once: without a
// connection no such message is accepted, and waiting ones are dropped when the connection is lost.
#pragma once

#include <atomic>
#include <bitset>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "mqtt/message_port.h"
#include "mqtt/packet.h"

namespace tutti::mqtt::bridge {

// RefusedTopics: topics to which the broker refuses messages of this server. Mosquitto 2.0 closes
// the connection on each attempt, so such a topic is avoided for a while, after which the access
// rules may have changed. Bounded; not thread-safe.
class RefusedTopics {
 public:
  static constexpr Duration kLeftAlone = std::chrono::minutes(5);
  static constexpr size_t kMost = 1024;  // beyond it, all are tried again

  void Add(const std::string& topic, TimePoint now) {
    if (until_.size() >= kMost) until_.clear();
    until_[topic] = now + kLeftAlone;
  }
  bool Has(const std::string& topic, TimePoint now) const {
    const auto found = until_.find(topic);
    return found != until_.end() && now < found->second;
  }

 private:
  std::map<std::string, TimePoint> until_;
};

struct OutboxLimits {
  size_t messages = 10'000;
  size_t bytes = 64 << 20;
};

// Abilities of the broker, from CONNACK.
struct BrokerTakes {
  Version version = Version::k5;
  size_t in_flight = 20;          // concurrent QoS 1 messages, at most 60,000
  size_t packet_bytes = 1 << 20;  // of one packet
  bool session_resumed = false;   // the broker has kept the session of the last connection
  bool retained = true;           // the broker supports retained messages
  bool qos1 = true;
};

// The publisher's result for the reason of a PUBACK: OK; not_found if there was no subscriber;
// insufficient_scope, request_too_large, overloaded, invalid_value, internal_error.
Status StatusOfPuback(ReasonCode reason);

class Outbox {
 public:
  struct Load {
    size_t messages = 0, bytes = 0;
  };

  explicit Outbox(const OutboxLimits& limits) : limits_(limits) {}

  // Queues a message that has passed CheckMessage(). Errors, after which `done` is not called:
  // overloaded (full, or QoS 0 without a connection); draining (after Seal()).
  Status Push(Message message, MessagePort::Published done);
  Load load() const;

  // --- the bridge's thread ---
  void Connected(const BrokerTakes& takes);
  void Lost();
  // Appends the next packet that may be sent to `out`. False: nothing waits, the window is full, or
  // there is no connection. Calls `done` of messages that have expired or that this broker does not
  // accept.
  bool SendNext(TimePoint now, std::string& out);
  // Topic of a message in flight; "" if there is none with this id.
  std::string TopicOf(uint16_t packet_id) const;
  // The broker refuses messages to `topic`: further ones fail for a while without being sent.
  void LeaveAlone(const std::string& topic, TimePoint now) { refused_topics_.Add(topic, now); }
  // Completes a message. False: none with this id is in flight.
  bool Acknowledge(uint16_t packet_id, const Status& status);
  void Seal();  // Push() refuses from now on; waiting messages are still sent
  // Seals, and ends all waiting messages with `why`. Returns their number.
  size_t Close(const Status& why);

  // Any thread.
  uint64_t published() const { return published_; }  // QoS 0 sent, QoS 1 acknowledged
  uint64_t failed() const { return failed_; }        // accepted, but ended with an error
  uint64_t refused() const { return refused_; }      // not accepted

 private:
  struct Item {
    Message message;
    MessagePort::Published done;
    size_t bytes = 0;
    uint16_t packet_id = 0;  // not 0: sent on an earlier connection
  };

  std::deque<Item>::const_iterator InFlight(uint16_t packet_id) const;
  // The reason why a message must not be sent now; OK if there is none.
  Status Obstacle(const Message& message, TimePoint now) const;
  // Removes the next message that may be sent; messages with an Obstacle() are ended before it.
  std::optional<Item> Pop(TimePoint now);
  // Reports the result to the publisher, after its place was freed.
  void Finish(Item item, const Status& status);
  uint16_t TakePacketId();

  const OutboxLimits limits_;

  // Bridge's thread.
  BrokerTakes takes_;
  RefusedTopics refused_topics_;
  std::deque<Item> in_flight_;  // in the order of sending
  std::bitset<65536> used_;     // packet ids of in_flight_ and of messages to send again
  uint16_t last_id_ = 0;

  std::atomic<uint64_t> published_ = 0, failed_ = 0, refused_ = 0;

  mutable Mutex mutex_;
  std::deque<Item> waiting_ GUARDED_BY(mutex_);
  Load load_ GUARDED_BY(mutex_);  // of waiting_ and in_flight_
  bool connected_ GUARDED_BY(mutex_) = false;
  bool sealed_ GUARDED_BY(mutex_) = false;
};

}  // namespace tutti::mqtt::bridge
