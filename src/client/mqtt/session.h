// MqttSession: the messages of an MQTT 5 client on one connection, without sockets, on top of a
// mqtt::ClientProtocol.
//
// Received bytes go in, bytes to send come out, and the time is a parameter, so that tests need no
// network and no waiting. Call Open() once, then On(), Pump() and Ping(). Messages are sent with
// QoS 1, one after the other, spaced (SendPace), and never more at once than the server accepts.
// Nothing outlives the connection: the owner sends unacknowledged messages again on the next one.
//
// A status that is not OK is the reason why the connection is of no further use. One thread at a
// time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "mqtt/client_protocol.h"
#include "mqtt/codec.h"
#include "mqtt/packet.h"

namespace tutti::client {

// SendPace: the time of the next message: after the minimum interval since the last message, and
// after the server's retry-after time. A value; one thread at a time.
class SendPace {
 public:
  // Interval that servers of the project profile expect of their clients.
  static constexpr Duration kUsual = std::chrono::milliseconds(100);

  // `min_interval`: between the beginnings of two sends; 0: none.
  explicit SendPace(Duration min_interval = kUsual) : min_interval_(min_interval) {}

  // Earliest time of the next message.
  TimePoint due() const { return due_; }
  void Sent(TimePoint now) { due_ = std::max(due_, now + min_interval_); }
  // Applies the server's retry-after; never makes the next message earlier.
  void HoldUntil(TimePoint when) { due_ = std::max(due_, when); }

 private:
  Duration min_interval_;
  TimePoint due_{};
};

// Credentials. The password is never printed.
struct MqttLogin {
  std::string client_id;  // 1 to 128 of A-Z a-z 0-9 _ . : -
  std::optional<std::string> user, password;
  uint16_t keep_alive_s = 60;  // 0: no keep-alive of the client
};

struct MqttSessionOptions {
  MqttLogin login;
  Duration min_interval = SendPace::kUsual;
  size_t max_waiting = 1000;        // limit of messages that are unsent or unacknowledged
  size_t packet_bytes = 16u << 20;  // limit of an incoming packet
};

// An outgoing message. `correlation` is copied into its answers.
struct MqttSend {
  std::string topic, payload;
  std::string correlation;  // empty: none
  uint32_t expiry_s = 0;    // time after which it is no longer delivered; 0: never
};

class MqttSession {
 public:
  explicit MqttSession(const MqttSessionOptions& options);

  // Sends CONNECT for a session that ends with the connection.
  void Open(TimePoint now, std::string& out);

  // Takes received bytes. Complete messages are acknowledged and appended to `messages`.
  Status On(std::string_view bytes, TimePoint now, std::string& out,
            std::vector<mqtt::Publish>& messages);

  bool connected() const {
    return protocol_.connected();
  }  // the server has accepted the connection

  // Subscribes to `filter`; needs connected(), and one call at a time. `retained`: also request the
  // messages that the server keeps.
  void Subscribe(const std::string& filter, bool retained, TimePoint now, std::string& out);
  // Result of the last Subscribe(); nullopt until it is known.
  const std::optional<Status>& subscribed() const { return subscribed_; }

  // Queues a message. Errors: overloaded (too many are queued).
  Status Push(MqttSend message);
  size_t unsent() const { return waiting_.size(); }
  size_t unacknowledged() const { return in_flight_.size(); }
  // Drops the messages that are not sent yet; returns their number.
  size_t DropUnsent();
  // Appends the messages that are due to `out`.
  void Pump(TimePoint now, std::string& out);
  TimePoint due() const;  // when the next Pump() could send; max: nothing to send
  void HoldUntil(TimePoint when) { pace_.HoldUntil(when); }

  // The next refused message with the server's reason, in the order of the refusals; not_found:
  // there was no subscriber.
  std::optional<std::pair<MqttSend, Status>> TakeRefused();

  // Sends a ping if nothing was sent for half the keep-alive time. Error: the server has not
  // answered a ping.
  Status Ping(TimePoint now, std::string& out);
  void Goodbye(std::string& out) { protocol_.SendGoodbye(out); }

 private:
  struct Sent {
    uint16_t id = 0;
    MqttSend message;
  };
  Status Take(const mqtt::Frame& frame, TimePoint now, std::string& out,
              std::vector<mqtt::Publish>& messages);
  void OnConnack(const mqtt::Connack& packet);
  Status OnPuback(const mqtt::Puback& packet, std::string& out);
  Status StatusOf(const mqtt::ClientProtocol::End& end) const;
  uint16_t FreeId();

  const MqttSessionOptions options_;
  mqtt::ClientProtocol protocol_;
  mqtt::FrameSplitter splitter_;
  size_t max_in_flight_ = 20;            // limit of the server
  size_t max_packet_bytes_ = 256 << 20;  // limit of the server
  std::optional<Status> subscribed_;
  SendPace pace_;
  std::deque<MqttSend> waiting_;
  std::deque<Sent> in_flight_;
  std::deque<std::pair<MqttSend, Status>> refused_;
  uint16_t last_id_ = 1;
};

}  // namespace tutti::client
