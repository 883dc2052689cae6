// Outbox: the messages that wait for one subscriber, and those that it has not acknowledged.
//
// Messages are sent in the order of arrival. QoS 0 passes QoS 1 only while the subscriber's Receive
// Maximum holds QoS 1 back (5.0 section 4.9). When the outbox is full, QoS 0 is dropped first:
// events of QoS 0 are hints, and the last event repeats their content. Pure; used by the io thread
// only.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "mqtt/message_port.h"
#include "server/mqtt/listener/limits.h"

namespace tutti::mqtt::listener {

using SharedMessage = std::shared_ptr<const Message>;

// One message for one subscriber.
struct Delivery {
  SharedMessage message;
  uint8_t qos = 0;  // 0 or 1
  bool retain = false;
  std::vector<uint32_t> subscription_ids;
  // Set by Next() for QoS 1.
  uint16_t packet_id = 0;
  bool dup = false;
};

class Outbox {
 public:
  explicit Outbox(const Limits& limits) : limits_(limits) {}

  enum class Pushed {
    kQueued,
    kDropped,   // QoS 0, no room
    kOverflow,  // QoS 1, no room: the subscriber must be disconnected
  };
  Pushed Push(Delivery delivery);

  // The next message that may be sent if at most `inflight` messages of QoS 1 may be
  // unacknowledged. Expired messages are dropped. A message of QoS 1 stays until Acknowledge().
  std::optional<Delivery> Next(size_t inflight, TimePoint now);

  // Removes an acknowledged message. False: none with this id was sent.
  bool Acknowledge(uint16_t packet_id);

  // Called on a new connection of the subscriber: unacknowledged messages are sent again, first.
  void Resend();

  size_t waiting() const { return hints_.size() + kept_.size(); }
  size_t inflight() const { return sent_.size(); }
  size_t bytes() const { return hint_bytes_ + kept_bytes_; }
  uint64_t dropped() const { return dropped_; }  // QoS 0 for want of room, and expired ones

 private:
  struct Waiting {
    uint64_t order;
    Delivery delivery;
  };
  bool Full(size_t more) const;
  void DropOldestHint();
  Delivery Pop(std::deque<Waiting>& queue);
  uint16_t NewPacketId();

  const Limits& limits_;
  std::deque<Waiting> hints_, kept_;  // QoS 0, QoS 1
  std::deque<Delivery> sent_;         // not acknowledged
  size_t resend_ = 0;                 // number of messages at the end of sent_ to be sent again
  size_t hint_bytes_ = 0;             // of hints_
  size_t kept_bytes_ = 0;             // of kept_ and sent_
  uint64_t order_ = 0, dropped_ = 0;
  uint16_t last_id_ = 0;
};

}  // namespace tutti::mqtt::listener
