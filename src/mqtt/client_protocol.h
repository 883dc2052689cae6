// ClientProtocol: what every client of an MQTT server does on a connection, for any kind of
// messages: CONNECT first, only packets that a server may send, answered pings, a last DISCONNECT.
//
// Received packets go in, bytes to send are appended to `out`, and the time is a parameter: no
// sockets, no clock. One connection at a time: Open(), then Take(), Tick() and Send(), then
// Close(). One thread at a time. Requests no topic aliases, and QoS 1 at most.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/clock.h"
#include "mqtt/codec.h"
#include "mqtt/packet.h"

namespace tutti::mqtt {

class ClientProtocol {
 public:
  struct Options {
    Version version = Version::k5;
    size_t packet_bytes = 1 << 20;  // limit of an incoming packet
    // A ping is sent when nothing was sent for the keep-alive time, divided by this.
    int pings_per_keep_alive = 1;
    // Time limit for the answer to a ping, which may follow other packets from the server.
    Duration ping_time = std::chrono::seconds(10);
  };

  // The end of a connection, with its cause. Bytes appended earlier must be sent before closing.
  struct End {
    enum class How {
      kRefused,       // by CONNACK
      kDisconnected,  // by the server's DISCONNECT
      kBroken,        // the server breaks the protocol
      kSilent,        // the server does not answer a ping
    };
    How how = How::kBroken;
    ReasonCode reason = ReasonCode::kSuccess;
    std::string why;  // this client's for kBroken, else the server's; may be empty
  };
  // The owner's task after a packet, if any. Connack: the server has accepted the connection.
  using Event = std::variant<std::monostate, End, Connack, Publish, Puback, Suback>;

  explicit ClientProtocol(const Options& options) : options_(options) {}

  void Open(const Connect& connect, TimePoint now, std::string& out);
  Event Take(const Frame& frame, TimePoint now, std::string& out);
  // Sends pings. `reading`: whether an answer could have been read.
  std::optional<End> Tick(TimePoint now, bool reading, std::string& out);
  TimePoint due() const;  // time of the next Tick()
  // Appends a packet, whose fields must be valid.
  void Send(const Packet& packet, TimePoint now, std::string& out);
  void NoteSent(TimePoint now) { sent_ = now; }  // bytes that the owner has appended
  // DISCONNECT: the Will is not published.
  void SendGoodbye(std::string& out);
  // Ends a connection whose server has broken the protocol; in MQTT 5, DISCONNECT carries `code`.
  End Break(ReasonCode code, std::string_view why, std::string& out);
  void Close();

  bool connected() const { return state_ == State::kConnected; }
  // Limits of incoming packets now.
  FrameLimits limits() const;

 private:
  enum class State { kClosed, kConnecting, kConnected };

  Event OnConnack(Connack packet, TimePoint now);

  const Options options_;
  State state_ = State::kClosed;
  Duration keep_alive_{0};               // as set by the server; 0 = none
  TimePoint sent_{};                     // time of the last packet sent
  TimePoint pinged_ = TimePoint::max();  // time of an unanswered ping; max = none
};

}  // namespace tutti::mqtt
