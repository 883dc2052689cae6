// Hub: the sessions of all clients, and the routing of messages to sessions and to the sinks of
// this process.
//
// Has no sockets and no threads, and never blocks. During a call, the only callback into a
// connection is SessionLink::OnTakenOver(). Sessions that have something to send are collected and
// served by Flush(), so that no call changes a container over which another call iterates. Used by
// the io thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "mqtt/message_port.h"
#include "mqtt/packet.h"
#include "server/mqtt/listener/limits.h"
#include "server/mqtt/listener/outbox.h"
#include "server/mqtt/listener/principal.h"
#include "server/mqtt/listener/subscriptions.h"
#include "server/mqtt/listener/topic_index.h"

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

// Session: the state of one client id of one user (5.0 section 4.1), connected or not. Owned by the
// Hub; used by the io thread only.
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
  bool overflow = false;        // a QoS 1 message was lost: disconnect with 0x97
  // --- not connected ---
  TimePoint will_due = TimePoint::max();
  TimePoint ends = TimePoint::max();
  TimePoint due() const { return std::min(will_due, ends); }
  TimePoint timer = TimePoint::max();  // entry in Hub::timers_
};

class Hub {
 public:
  Hub(const Limits& limits, const Clock& clock) : limits_(limits), clock_(clock) {}

  // --- sessions ---
  struct Opened {
    Session* session;
    bool present;  // there was a session, and it continues
  };
  // Opens the session of a client id. Client ids are scoped by user and tenant: no user can take
  // over a session of another. The link that had the session is notified.
  Opened Open(const Principal& principal, const std::string& client_id, bool clean_start,
              uint32_t expiry_s, std::optional<StoredWill> will, SessionLink* link);
  // The connection of `session` has ended. `publish_will`: it ended without a normal DISCONNECT.
  void Close(Session* session, bool publish_will);

  // Returns the granted QoS (0 or 1) or the error: 0x87, 0x8F, 0x97, 0x9E. Retained messages
  // follow.
  ReasonCode Subscribe(Session* session, const Subscription& subscription,
                       std::optional<uint32_t> id);
  bool Unsubscribe(Session* session, const std::string& filter);  // false: there was none

  // Queues the message for every subscriber, and keeps it if it is retained. `from`: the publisher,
  // which may have asked not to receive its own messages. Returns the number of sessions.
  size_t Publish(Message message, const Session* from);

  void AddSink(std::string filter, MessagePort::Sink sink);
  std::vector<const MessagePort::Sink*> SinksOf(std::string_view topic) const;

  // --- time ---
  void OnTime();  // ends expired sessions, publishes delayed Wills
  TimePoint due() const { return timers_.empty() ? TimePoint::max() : timers_.begin()->first; }
  void Flush();  // SessionLink::Serve() of each session that may have something to send

  size_t sessions() const { return sessions_.size(); }
  size_t retained() const { return retained_.size(); }
  bool RoomToRetain(const std::string& topic) const {
    return retained_.contains(topic) || retained_.size() < limits_.retained;
  }

 private:
  void Queue(Session* session, Delivery delivery);
  void Keep(const SharedMessage& message);
  void SendRetained(Session* session, const Subscription& subscription);
  void PublishWill(Session* session);
  void End(Session* session);  // destroys the session
  void SetTimer(Session* session);
  void MakeRoom(const Principal& principal);

  const Limits& limits_;
  const Clock& clock_;
  std::map<std::string, std::unique_ptr<Session>> sessions_;  // by key
  TopicIndex index_;
  std::map<std::string, SharedMessage> retained_;  // by topic
  struct SinkEntry {
    std::string filter;
    MessagePort::Sink sink;
  };
  std::vector<SinkEntry> sinks_;
  std::set<std::pair<TimePoint, Session*>> timers_;  // timers of sessions without a connection
  std::vector<Session*> ready_;
};

}  // namespace tutti::mqtt::listener
