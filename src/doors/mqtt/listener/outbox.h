// Outbox: what waits for one subscriber, and what it has not acknowledged.
//
// Order is that of arrival. Only where the subscriber's Receive Maximum holds back QoS 1 does QoS 0
// pass it (5.0 section 4.9). When it is full, QoS 0 is dropped first: events of QoS 0 are hints,
// and the last event repeats them. Pure; the io thread's.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "doors/mqtt/listener/limits.h"
#include "mqtt/message_port.h"

namespace tutti::mqtt::listener {

using SharedMessage = std::shared_ptr<const Message>;

// One message for one subscriber.
struct Delivery {
  SharedMessage message;
  uint8_t qos = 0;  // 0 or 1
  bool retain = false;
  std::vector<uint32_t> subscription_ids;
  // Of QoS 1, from Next() on.
  uint16_t packet_id = 0;
  bool dup = false;
};

class Outbox {
 public:
  explicit Outbox(const Limits& limits) : limits_(limits) {}

  enum class Pushed {
    kQueued,
    kDropped,   // of QoS 0, for want of room
    kOverflow,  // of QoS 1: the subscriber cannot be served any more
  };
  Pushed Push(Delivery delivery);

  // The next that may be sent when at most `inflight` of QoS 1 may be unacknowledged; those that
  // have expired are dropped. One of QoS 1 stays until Acknowledge().
  std::optional<Delivery> Next(size_t inflight, TimePoint now);

  // False: nothing of that id was sent.
  bool Acknowledge(uint16_t packet_id);

  // On a new connection of the subscriber: what was not acknowledged is sent again, first.
  void Resend();

  size_t waiting() const { return hints_.size() + kept_.size(); }
  size_t inflight() const { return sent_.size(); }
  size_t bytes() const { return hint_bytes_ + kept_bytes_; }
  uint64_t dropped() const { return dropped_; }  // of QoS 0, and expired ones

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
  size_t resend_ = 0;                 // so many at the end of sent_ are to be sent again
  size_t hint_bytes_ = 0;             // of hints_
  size_t kept_bytes_ = 0;             // of kept_ and sent_
  uint64_t order_ = 0, dropped_ = 0;
  uint16_t last_id_ = 0;
};

}  // namespace tutti::mqtt::listener
