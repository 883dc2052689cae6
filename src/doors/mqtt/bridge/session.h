// Session: what a client of MQTT says on one connection after the other, without sockets.
//
// Packets that came go in, bytes to be sent come out, time is handed in: the whole of the protocol
// can be tested with neither network nor waiting. The bridge's thread owns it. One connection at a
// time: Open, then On / Tick / Pump as things happen, then Lost.
//
// It asks for a session that outlasts the connection (clean start false), for QoS 1 at most, and
// for no topic aliases. A Status that is not OK says why this connection is of no further use; what
// was appended to `out` by then is to be sent before it is closed.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "doors/mqtt/bridge/broker_options.h"
#include "doors/mqtt/bridge/inbox.h"
#include "doors/mqtt/bridge/outbox.h"
#include "mqtt/frame_splitter.h"
#include "mqtt/packet.h"

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

  explicit Session(const Dependencies& dependencies) : deps_(dependencies) {}

  void Open(TimePoint now, std::string& out);
  Status On(const Frame& frame, TimePoint now, std::string& out);
  // Pings, and notices a broker that does not answer. `reading`: whether its answer could be read.
  Status Tick(TimePoint now, bool reading, std::string& out);
  TimePoint due() const;  // of the next Tick
  // Acknowledges what may be, and sends what waits until `out` holds `most_bytes`.
  void Pump(TimePoint now, size_t most_bytes, std::string& out);
  void Goodbye(std::string& out);  // DISCONNECT: the Will is not published
  void Lost();

  // Whether the broker has let us in.
  bool connected() const { return phase_ == Phase::kSubscribing || phase_ == Phase::kReady; }
  // Whether it also has granted or refused every subscription.
  bool ready() const { return phase_ == Phase::kReady; }
  bool resumed() const { return resumed_; }  // the broker had kept our session
  // The most that may come now (FrameSplitter).
  FrameLimits limits() const;

 private:
  enum class Phase { kClosed, kConnecting, kSubscribing, kReady };

  void OnPuback(const Puback& packet, TimePoint now);
  Status OnConnack(const Connack& packet, TimePoint now, std::string& out);
  Status OnPublish(Publish packet, TimePoint now, std::string& out);
  bool OnSuback(const Suback& packet);  // false: it answers no SUBSCRIBE
  void Subscribe(std::string& out);
  void Send(const Packet& packet, std::string& out);
  Status Broken(ReasonCode code, std::string_view why, std::string& out);

  const Dependencies deps_;
  Phase phase_ = Phase::kClosed;
  bool resumed_ = false;
  Duration keep_alive_{0};               // as the broker wants it; 0 = none
  TimePoint sent_{};                     // the last packet of ours
  TimePoint pinged_ = TimePoint::max();  // a ping without an answer; max = none
  size_t subscribes_left_ = 0;           // SUBSCRIBE packets without an answer
};

}  // namespace tutti::mqtt::bridge
