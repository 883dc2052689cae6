// MqttSession: what a client of MQTT 5 says on one connection, without sockets.
//
// Bytes that came go in, bytes to be sent come out, time is handed in: all of it can be tested with
// neither network nor waiting. One connection: Open, then On, Pump and Ping as things happen. What
// is sent has QoS 1 and leaves one after the other, spaced (SendPace) and no more at once than the
// server takes; nothing outlives the connection: who asked says again what was not acknowledged.
//
// A Status that is not OK says why the connection is of no further use. One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "client/mqtt/send_pace.h"
#include "mqtt/frame_splitter.h"
#include "mqtt/packet.h"

namespace tutti::client {

// Who connects. The password is shown nowhere.
struct MqttLogin {
  std::string client_id;  // 1 to 128 of A-Z a-z 0-9 _ . : -
  std::optional<std::string> user, password;
  uint16_t keep_alive_s = 60;  // 0: as long as the server likes
};

struct MqttSessionOptions {
  MqttLogin login;
  Duration min_interval = SendPace::kUsual;
  size_t most_waiting = 1000;       // messages that wait to be sent or acknowledged
  size_t packet_bytes = 16u << 20;  // of one that comes
};

// Of a message: its topic, its payload, and what its answers carry back.
struct MqttSend {
  std::string topic, payload;
  std::string correlation;  // empty: none
  uint32_t expiry_s = 0;    // after which nobody is to get it any more; 0: never
};

class MqttSession {
 public:
  explicit MqttSession(const MqttSessionOptions& options);

  // CONNECT, of a session that ends with the connection.
  void Open(TimePoint now, std::string& out);

  // Takes bytes that came. Messages are appended to `messages`, acknowledged.
  Status On(std::string_view bytes, TimePoint now, std::string& out,
            std::vector<mqtt::Publish>& messages);

  bool connected() const { return connected_; }  // the server has let us in

  // Asks for the messages of `filter`; one at a time, when connected.
  // `retained`: also for those that the server keeps.
  void Subscribe(const std::string& filter, bool retained, TimePoint now, std::string& out);
  // What became of the last Subscribe; nothing yet: nullopt.
  const std::optional<Status>& subscribed() const { return subscribed_; }

  // Queues a message. Errors: overloaded (too many wait).
  Status Push(MqttSend message);
  size_t unsent() const { return waiting_.size(); }
  size_t unacknowledged() const { return in_flight_.size(); }
  // Those that have not left yet never will; gives how many those were.
  size_t DropUnsent();
  // Appends the messages whose turn has come.
  void Pump(TimePoint now, std::string& out);
  TimePoint due() const;  // of the next Pump that could send; max: none
  void HoldUntil(TimePoint when) { pace_.HoldUntil(when); }

  // A message that the server has refused, with what it said; not_found: nobody has subscribed.
  // Taken out in the order of the refusals.
  std::optional<std::pair<MqttSend, Status>> TakeRefused();

  // A ping, when nothing was sent for half of keep-alive; and notices a server that answers none.
  Status Ping(TimePoint now, std::string& out);
  void Goodbye(std::string& out);

 private:
  struct Sent {
    uint16_t id = 0;
    MqttSend message;
  };
  Status Take(const mqtt::Frame& frame, TimePoint now, std::string& out,
              std::vector<mqtt::Publish>& messages);
  Status OnConnack(const mqtt::Connack& packet);
  Status OnPuback(const mqtt::Puback& packet);
  void Send(const mqtt::Packet& packet, TimePoint now, std::string& out);
  uint16_t FreeId();

  const MqttSessionOptions options_;
  mqtt::FrameSplitter splitter_;
  bool connected_ = false;
  Duration keep_alive_{0};                // as the server wants it; 0: none
  size_t most_in_flight_ = 20;            // that the server takes
  size_t most_packet_bytes_ = 256 << 20;  // likewise
  TimePoint sent_{};                      // the last packet of ours
  std::optional<TimePoint> pinged_;       // without an answer
  std::optional<Status> subscribed_;
  SendPace pace_;
  std::deque<MqttSend> waiting_;
  std::deque<Sent> in_flight_;
  std::deque<std::pair<MqttSend, Status>> refused_;
  uint16_t last_id_ = 1;
};

}  // namespace tutti::client
