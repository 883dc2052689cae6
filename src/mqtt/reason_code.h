// Packet types and reason codes of MQTT, by the numbers of MQTT 5.0 sections 2.1.2 and 2.4.
//
// MQTT 3.1.1 knows the same packets but AUTH, and of the codes only CONNACK's five refusals and
// SUBACK's failure; `reason_code.cc` translates. Plain data and pure functions; any thread.
#pragma once

#include <cstdint>
#include <string_view>

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

}  // namespace tutti::mqtt
