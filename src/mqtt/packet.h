// The packets of MQTT 3.1.1 and 5.0 as plain data, one struct each (sections 3.1 to 3.15).
//
// A field that a version does not have is ignored when a packet of that version is encoded, and has
// its default after decoding one. Values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "mqtt/properties.h"
#include "mqtt/reason_code.h"

namespace tutti::mqtt {

// The message published if the connection ends without DISCONNECT (3.1.2.5).
struct Will {
  std::string topic;
  std::string payload;
  uint8_t qos = 0;  // 0 to 2
  bool retain = false;
  Properties properties;
  friend bool operator==(const Will&, const Will&) = default;
};

struct Connect {
  Version version = Version::k5;
  bool clean_start = true;  // "clean session" in 3.1.1
  uint16_t keep_alive_s = 0;
  std::string client_id;
  std::optional<std::string> user_name;
  std::optional<std::string> password;
  std::optional<Will> will;
  Properties properties;
  friend bool operator==(const Connect&, const Connect&) = default;
};

struct Connack {
  bool session_present = false;
  ReasonCode reason = ReasonCode::kSuccess;  // in 3.1.1 as ReturnCodeOf() says it
  Properties properties;
  friend bool operator==(const Connack&, const Connack&) = default;
};

struct Publish {
  std::string topic;  // empty: that of properties.topic_alias
  std::string payload;
  uint8_t qos = 0;  // 0 to 2
  bool dup = false, retain = false;
  uint16_t packet_id = 0;  // of QoS 1 and 2
  Properties properties;
  friend bool operator==(const Publish&, const Publish&) = default;
};

// PUBACK, PUBREC, PUBREL and PUBCOMP, which look alike.
template <PacketType kType>
struct PublishAck {
  uint16_t packet_id = 0;
  ReasonCode reason = ReasonCode::kSuccess;
  Properties properties;
  friend bool operator==(const PublishAck&, const PublishAck&) = default;
};
using Puback = PublishAck<PacketType::kPuback>;
using Pubrec = PublishAck<PacketType::kPubrec>;
using Pubrel = PublishAck<PacketType::kPubrel>;
using Pubcomp = PublishAck<PacketType::kPubcomp>;

// One filter of SUBSCRIBE with its options (5.0 section 3.8.3.1).
struct Subscription {
  std::string filter;
  uint8_t qos = 0;  // the most that is wanted, 0 to 2
  bool no_local = false;
  bool retain_as_published = false;
  uint8_t retain_handling = 0;  // 0: send retained; 1: only if new; 2: do not
  friend bool operator==(const Subscription&, const Subscription&) = default;
};

struct Subscribe {
  uint16_t packet_id = 0;
  std::vector<Subscription> subscriptions;  // at least one
  Properties properties;
  friend bool operator==(const Subscribe&, const Subscribe&) = default;
};

struct Suback {
  uint16_t packet_id = 0;
  std::vector<ReasonCode> reasons;  // one for each filter
  Properties properties;
  friend bool operator==(const Suback&, const Suback&) = default;
};

struct Unsubscribe {
  uint16_t packet_id = 0;
  std::vector<std::string> filters;  // at least one
  Properties properties;
  friend bool operator==(const Unsubscribe&, const Unsubscribe&) = default;
};

struct Unsuback {
  uint16_t packet_id = 0;
  std::vector<ReasonCode> reasons;  // one for each filter; none in 3.1.1
  Properties properties;
  friend bool operator==(const Unsuback&, const Unsuback&) = default;
};

struct Pingreq {
  friend bool operator==(const Pingreq&, const Pingreq&) = default;
};

struct Pingresp {
  friend bool operator==(const Pingresp&, const Pingresp&) = default;
};

struct Disconnect {
  ReasonCode reason = ReasonCode::kSuccess;
  Properties properties;
  friend bool operator==(const Disconnect&, const Disconnect&) = default;
};

struct Auth {  // 5.0 only
  ReasonCode reason = ReasonCode::kSuccess;
  Properties properties;
  friend bool operator==(const Auth&, const Auth&) = default;
};

// In the order of their numbers, from 1.
using Packet = std::variant<Connect, Connack, Publish, Puback, Pubrec, Pubrel, Pubcomp, Subscribe,
                            Suback, Unsubscribe, Unsuback, Pingreq, Pingresp, Disconnect, Auth>;

inline PacketType TypeOf(const Packet& packet) {
  return static_cast<PacketType>(packet.index() + 1);
}

}  // namespace tutti::mqtt
