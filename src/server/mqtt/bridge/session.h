// Session: the bridge's state over successive connections to the broker, without sockets: what it
// subscribes to, acknowledges and sends, on top of a ClientProtocol.
//
// Received packets go in, bytes to send come out, and the time is a parameter, so that tests need
// no network and no waiting. Owned by the bridge's thread. One connection at a time: Open(), then
// On(), Tick() and Pump(), then Lost().
//
// Requests a session that outlasts the connection (clean start false). A status that is not OK is
// the reason why the connection is of no further use; bytes appended to `out` before are to be sent
// before it is closed.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/status.h"
#include "mqtt/client_protocol.h"
#include "mqtt/codec.h"
#include "mqtt/packet.h"
#include "server/mqtt/bridge/broker_options.h"
#include "server/mqtt/bridge/inbox.h"
#include "server/mqtt/bridge/outbox.h"

namespace tutti::mqtt::bridge {

class Session {
 public:
  struct Dependencies {  // all outlive the session
    const BridgeOptions* options = nullptr;
    const Credentials* credentials = nullptr;
    Outbox* outbox = nullptr;
    Inbox* inbox = nullptr;
    Logger* log = nullptr;  // may be null
  };

  explicit Session(const Dependencies& dependencies);

  void Open(TimePoint now, std::string& out);
  Status On(const Frame& frame, TimePoint now, std::string& out);
  // Sends pings. Error: the broker does not answer. `reading`: whether its answer could have been
  // read.
  Status Tick(TimePoint now, bool reading, std::string& out);
  TimePoint due() const { return protocol_.due(); }  // time of the next Tick()
  // Sends due acknowledgements, and waiting messages until `out` holds `max_bytes`.
  void Pump(TimePoint now, size_t max_bytes, std::string& out);
  // DISCONNECT: the Will is not published.
  void Goodbye(std::string& out) { protocol_.SendGoodbye(out); }
  void Lost();

  // Whether the broker has accepted the connection.
  bool connected() const { return protocol_.connected(); }
  // Whether the broker has also granted or refused every subscription.
  bool ready() const { return connected() && subscribes_left_ == 0; }
  bool resumed() const { return resumed_; }  // the broker had kept the session
  // Limits of incoming packets now (FrameSplitter).
  FrameLimits limits() const { return protocol_.limits(); }

 private:
  void OnPuback(const Puback& packet, TimePoint now);
  void OnConnack(const Connack& packet, TimePoint now, std::string& out);
  Status OnPublish(Publish packet, TimePoint now, std::string& out);
  bool OnSuback(const Suback& packet);  // false: it answers no SUBSCRIBE
  void Subscribe(TimePoint now, std::string& out);

  const Dependencies deps_;
  ClientProtocol protocol_;
  bool resumed_ = false;
  size_t subscribes_left_ = 0;  // SUBSCRIBE packets without an answer
};

// ReconnectBackoff: the delay before the next connection attempt to the broker. Pure.
//
// The maximum delay starts at 1 s and doubles with each failed attempt, up to 120 s. The delay is
// random within the upper half of the maximum, so that clients which lost their connections in the
// same restart do not return together. After a connection that lasted for a minute, the maximum
// starts at 1 s again; after a shorter one it does not, so that a broker which accepts and then
// disconnects is not tried every second.
class ReconnectBackoff {
 public:
  ReconnectBackoff(const BackoffLimits& limits, uint64_t seed) : limits_(limits), random_(seed) {}

  void Connected(TimePoint now) { connected_ = now; }
  // The delay after an attempt or connection that ended at `now`: random in [w/2, w], where w is
  // the current maximum.
  Duration Lost(TimePoint now);

 private:
  const BackoffLimits limits_;
  Random random_;
  Duration due_{0};                         // the last w; 0 = none yet
  TimePoint connected_ = TimePoint::max();  // max = not connected
};

}  // namespace tutti::mqtt::bridge
