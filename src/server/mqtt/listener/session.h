// Session: the state of one client id of one user (5.0 section 4.1), connected or not. Owned by the
// Hub; used by the io thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "mqtt/message_port.h"
#include "server/mqtt/listener/outbox.h"
#include "server/mqtt/listener/principal.h"
#include "server/mqtt/listener/subscriptions.h"

namespace tutti::mqtt::listener {

// The connection that serves a session.
class SessionLink {
 public:
  virtual ~SessionLink() = default;
  // Sends what the session has to send. Called by Hub::Flush() only; may call the Hub.
  virtual void Serve() = 0;
  // Another connection has taken the session over; this link has none any more. Must not call the
  // Hub.
  virtual void OnTakenOver() = 0;
};

// A Will, published when its connection ends abnormally.
struct StoredWill {
  Message message;  // `expires` is not set yet
  std::optional<uint32_t> expiry_s;
  Duration delay{0};
};

struct Session {
  Session(const Limits& limits, std::string session_key, std::string id)
      : key(std::move(session_key)),
        client_id(std::move(id)),
        subscriptions(limits.subscriptions),
        outbox(limits) {}

  const std::string key;
  const std::string client_id;
  Principal principal;  // principal of the latest connection
  Subscriptions subscriptions;
  Outbox outbox;
  std::optional<StoredWill> will;
  uint32_t expiry_s = 0;

  SessionLink* link = nullptr;  // null = not connected
  bool ready = false;           // in Hub::ready_
  bool overflow = false;        // QoS 1 was lost: to be disconnected with 0x97
  // --- not connected ---
  TimePoint will_due = TimePoint::max();
  TimePoint ends = TimePoint::max();
  TimePoint due() const { return std::min(will_due, ends); }
  TimePoint timer = TimePoint::max();  // entry in Hub::timers_
};

}  // namespace tutti::mqtt::listener
