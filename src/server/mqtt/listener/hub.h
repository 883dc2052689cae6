// Hub: the sessions of all clients, and the routing of messages to sessions and to the sinks of
// this process.
//
// Has no sockets and no threads, and never blocks. During a call, the only callback into a
// connection is Peer::OnTakenOver(). Sessions that have something to send are collected and
// served by Flush(), so that no call changes a container over which another call iterates. Used by
// the io thread only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "mqtt/message_port.h"
#include "mqtt/packet.h"
#include "mqtt/topics.h"
#include "server/mqtt/listener/authenticator.h"
#include "server/mqtt/listener/limits.h"
#include "server/mqtt/listener/outbox.h"

namespace tutti::mqtt::listener {

class Peer;
struct Session;

// Subscriptions: the filters of one session, and how they apply to a message. Pure.
class Subscriptions {
 public:
  explicit Subscriptions(size_t most) : max_(most) {}

  enum class Added { kNew, kReplaced, kFull };
  // A filter that is there already gets the new options (section 3.8.4).
  Added Add(const Subscription& subscription, std::optional<uint32_t> id);
  bool Remove(std::string_view filter);  // false: there was none

  // The delivery of a message to `topic`: once, at the highest requested QoS, with the ids of all
  // matching filters (3.3.4). nullopt: no delivery. `own`: the session published it.
  struct Match {
    uint8_t qos = 0;
    bool retain_as_published = false;
    std::vector<uint32_t> ids;
  };
  std::optional<Match> Find(std::string_view topic, bool own) const;

  size_t size() const { return entries_.size(); }
  template <typename Visit>  // (const std::string& filter)
  void ForEach(Visit visit) const {
    for (const Entry& entry : entries_) visit(entry.subscription.filter);
  }

 private:
  struct Entry {
    Subscription subscription;
    std::optional<uint32_t> id;
  };
  const size_t max_;
  std::vector<Entry> entries_;
};

// TopicIndex: finds the sessions that subscribed to a topic, with a tree of the levels of filters.
//
// The cost of a search is the number of levels of the topic, doubled at levels where filters have
// `+`; it does not depend on the number of subscribers. Holds pointers, without owning the
// sessions.
class TopicIndex {
 public:
  // Adds a filter that is not shared; once for each session and filter.
  void Add(std::string_view filter, Session* session);
  void Remove(std::string_view filter, Session* session);

  // Every session with a matching filter, each once.
  std::vector<Session*> Find(std::string_view topic) const;

  bool empty() const { return root_.children.empty(); }

 private:
  struct Node {
    std::map<std::string, std::unique_ptr<Node>, std::less<>> children;
    std::vector<Session*> sessions;  // sessions whose filter ends here
  };
  static bool RemoveBelow(Node& node, TopicWalk walk, Session* session);
  // `wild`: whether wildcards match the next level.
  static void FindBelow(const Node& node, TopicWalk walk, bool wild, std::vector<Session*>& found);
  Node root_;
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

  Peer* link = nullptr;   // of the connection; null = not connected
  bool ready = false;     // in Hub::ready_
  bool overflow = false;  // a QoS 1 message was lost: disconnect with 0x97
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
              uint32_t expiry_s, std::optional<StoredWill> will, Peer* link);
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

  void AddSink(std::string filter, MessagePort::Sink sink) {
    sinks_.Add(std::move(filter), std::move(sink));
  }
  std::vector<const MessagePort::Sink*> SinksOf(std::string_view topic) const {
    return sinks_.Match(topic);
  }

  // --- time ---
  void OnTime();  // ends expired sessions, publishes delayed Wills
  TimePoint due() const { return timers_.empty() ? TimePoint::max() : timers_.begin()->first; }
  void Flush();  // Peer::Serve() of each session that may have something to send

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
  SinkTable sinks_;
  std::set<std::pair<TimePoint, Session*>> timers_;  // timers of sessions without a connection
  std::vector<Session*> ready_;
};

}  // namespace tutti::mqtt::listener
