// The packets of MQTT 3.1.1 and 5.0 as plain data, one struct each (sections 3.1 to 3.15), with
// their types, reason codes and properties, by the numbers of MQTT 5.0 (sections 2.1.2, 2.4
// and 2.2.2).
//
// MQTT 3.1.1 knows the same packets but AUTH, and of the codes only CONNACK's five refusals and
// SUBACK's failure; `packet.cc` translates. A field that a version does not have is ignored when a
// packet of that version is encoded, and has its default after decoding one. Values and pure
// functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tutti::mqtt {

// The protocol level of CONNECT (section 3.1.2.2 of both).
enum class Version : uint8_t { k311 = 4, k5 = 5 };

enum class PacketType : uint8_t {
  kConnect = 1,
  kConnack = 2,
  kPublish = 3,
  kPuback = 4,
  kPubrec = 5,
  kPubrel = 6,
  kPubcomp = 7,
  kSubscribe = 8,
  kSuback = 9,
  kUnsubscribe = 10,
  kUnsuback = 11,
  kPingreq = 12,
  kPingresp = 13,
  kDisconnect = 14,
  kAuth = 15,
};

std::string_view PacketTypeName(PacketType type);  // "PUBLISH"

enum class ReasonCode : uint8_t {
  kSuccess = 0x00,  // also: normal disconnection, granted QoS 0
  kGrantedQos1 = 0x01,
  kGrantedQos2 = 0x02,
  kDisconnectWithWill = 0x04,
  kNoMatchingSubscribers = 0x10,
  kNoSubscriptionExisted = 0x11,
  kContinueAuthentication = 0x18,
  kReauthenticate = 0x19,
  kUnspecified = 0x80,
  kMalformedPacket = 0x81,
  kProtocolError = 0x82,
  kImplementationSpecific = 0x83,
  kUnsupportedVersion = 0x84,
  kClientIdNotValid = 0x85,
  kBadUserNameOrPassword = 0x86,
  kNotAuthorized = 0x87,
  kServerUnavailable = 0x88,
  kServerBusy = 0x89,
  kBanned = 0x8A,
  kServerShuttingDown = 0x8B,
  kBadAuthenticationMethod = 0x8C,
  kKeepAliveTimeout = 0x8D,
  kSessionTakenOver = 0x8E,
  kTopicFilterInvalid = 0x8F,
  kTopicNameInvalid = 0x90,
  kPacketIdInUse = 0x91,
  kPacketIdNotFound = 0x92,
  kReceiveMaximumExceeded = 0x93,
  kTopicAliasInvalid = 0x94,
  kPacketTooLarge = 0x95,
  kMessageRateTooHigh = 0x96,
  kQuotaExceeded = 0x97,
  kAdministrativeAction = 0x98,
  kPayloadFormatInvalid = 0x99,
  kRetainNotSupported = 0x9A,
  kQosNotSupported = 0x9B,
  kUseAnotherServer = 0x9C,
  kServerMoved = 0x9D,
  kSharedSubscriptionsNotSupported = 0x9E,
  kConnectionRateExceeded = 0x9F,
  kMaximumConnectTime = 0xA0,
  kSubscriptionIdsNotSupported = 0xA1,
  kWildcardSubscriptionsNotSupported = 0xA2,
};

inline bool IsFailure(ReasonCode code) { return static_cast<uint8_t>(code) >= 0x80; }

// Whether `code` is a reason code that MQTT 5 allows in packets of `type` (section 2.4, table 2-6).
bool ReasonCodeFits(uint8_t code, PacketType type);

// The closest return code of a CONNACK of MQTT 3.1.1 (section 3.2.2.3), 0 to 5; and back.
uint8_t ReturnCodeOf(ReasonCode code);
ReasonCode ReasonOfReturnCode(uint8_t return_code);  // needs 0 to 5

// Why bytes are not a packet, or not one that is allowed there. `why` is constant text, never
// input.
struct Fault {
  ReasonCode code = ReasonCode::kMalformedPacket;
  std::string_view why;
  friend bool operator==(const Fault&, const Fault&) = default;
};

inline constexpr size_t kMaxUserProperties = 64;        // of one packet; more are 0x97
inline constexpr uint32_t kNeverExpires = 0xFFFF'FFFF;  // of session_expiry_s

using UserProperty = std::pair<std::string, std::string>;

// The properties of MQTT 5 (section 2.2.2), for all packets; wire.cc says which may stand
// where, how often, and with which values.
struct Properties {
  std::optional<bool> payload_is_text;               // 0x01; Payload Format Indicator
  std::optional<uint32_t> message_expiry_s;          // 0x02
  std::optional<std::string> content_type;           // 0x03
  std::optional<std::string> response_topic;         // 0x08
  std::optional<std::string> correlation_data;       // 0x09; bytes
  std::vector<uint32_t> subscription_ids;            // 0x0B; 1 to 268,435,455
  std::optional<uint32_t> session_expiry_s;          // 0x11
  std::optional<std::string> assigned_client_id;     // 0x12
  std::optional<uint16_t> server_keep_alive_s;       // 0x13
  std::optional<std::string> authentication_method;  // 0x15
  std::optional<std::string> authentication_data;    // 0x16; bytes
  std::optional<bool> request_problem_information;   // 0x17
  std::optional<uint32_t> will_delay_s;              // 0x18
  std::optional<bool> request_response_information;  // 0x19
  std::optional<std::string> response_information;   // 0x1A
  std::optional<std::string> server_reference;       // 0x1C
  std::optional<std::string> reason_string;          // 0x1F
  std::optional<uint16_t> receive_maximum;           // 0x21; at least 1
  std::optional<uint16_t> topic_alias_maximum;       // 0x22
  std::optional<uint16_t> topic_alias;               // 0x23; at least 1
  std::optional<bool> maximum_qos;                   // 0x24; QoS 0 or 1
  std::optional<bool> retain_available;              // 0x25
  std::vector<UserProperty> user;                    // 0x26; in order, names may repeat
  std::optional<uint32_t> maximum_packet_size;       // 0x27; at least 1
  std::optional<bool> wildcards_available;           // 0x28
  std::optional<bool> subscription_ids_available;    // 0x29
  std::optional<bool> shared_available;              // 0x2A
  friend bool operator==(const Properties&, const Properties&) = default;
};

// The place of a property list: a packet type, or CONNECT's Will.
enum class PropertyPlace : uint8_t { kWill = 0 };  // else the number of the packet's type
constexpr PropertyPlace PlaceIn(PacketType type) { return static_cast<PropertyPlace>(type); }

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
