#include "mqtt/packet.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/check.h"

namespace tutti::mqtt {
namespace {

// Table 2-6 of MQTT 5.0, by packet. PUBREC has the codes of PUBACK, and PUBCOMP those of PUBREL.
constexpr uint8_t kConnackCodes[] = {0x00, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86,
                                     0x87, 0x88, 0x89, 0x8A, 0x8C, 0x90, 0x95, 0x97,
                                     0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F};
constexpr uint8_t kPubackCodes[] = {0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99};
constexpr uint8_t kPubrelCodes[] = {0x00, 0x92};
constexpr uint8_t kSubackCodes[] = {0x00, 0x01, 0x02, 0x80, 0x83, 0x87,
                                    0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2};
constexpr uint8_t kUnsubackCodes[] = {0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91};
constexpr uint8_t kDisconnectCodes[] = {0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8C,
                                        0x8D, 0x8E, 0x8F, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98,
                                        0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1, 0xA2};
constexpr uint8_t kAuthCodes[] = {0x00, 0x18, 0x19};

std::span<const uint8_t> ReasonCodesOf(PacketType type) {
  switch (type) {
    case PacketType::kConnack:
      return kConnackCodes;
    case PacketType::kPuback:
    case PacketType::kPubrec:
      return kPubackCodes;
    case PacketType::kPubrel:
    case PacketType::kPubcomp:
      return kPubrelCodes;
    case PacketType::kSuback:
      return kSubackCodes;
    case PacketType::kUnsuback:
      return kUnsubackCodes;
    case PacketType::kDisconnect:
      return kDisconnectCodes;
    case PacketType::kAuth:
      return kAuthCodes;
    default:
      return {};
  }
}

// By return code of MQTT 3.1.1.
constexpr std::array kReturnCodes = {ReasonCode::kSuccess,
                                     ReasonCode::kUnsupportedVersion,
                                     ReasonCode::kClientIdNotValid,
                                     ReasonCode::kServerUnavailable,
                                     ReasonCode::kBadUserNameOrPassword,
                                     ReasonCode::kNotAuthorized};

}  // namespace

std::string_view PacketTypeName(PacketType type) {
  constexpr std::string_view kNames[] = {"reserved",  "CONNECT",  "CONNACK",     "PUBLISH",
                                         "PUBACK",    "PUBREC",   "PUBREL",      "PUBCOMP",
                                         "SUBSCRIBE", "SUBACK",   "UNSUBSCRIBE", "UNSUBACK",
                                         "PINGREQ",   "PINGRESP", "DISCONNECT",  "AUTH"};
  return kNames[static_cast<unsigned>(type) & 15];
}

bool ReasonCodeFits(uint8_t code, PacketType type) {
  const std::span<const uint8_t> codes = ReasonCodesOf(type);
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

uint8_t ReturnCodeOf(ReasonCode code) {
  const auto same = std::find(kReturnCodes.begin(), kReturnCodes.end(), code);
  if (same != kReturnCodes.end()) return static_cast<uint8_t>(same - kReturnCodes.begin());
  switch (code) {
    case ReasonCode::kBanned:
    case ReasonCode::kBadAuthenticationMethod:
    case ReasonCode::kQosNotSupported:
    case ReasonCode::kRetainNotSupported:
      return 5;  // not authorised
    default:
      return 3;  // server unavailable
  }
}

ReasonCode ReasonOfReturnCode(uint8_t return_code) {
  CHECK(return_code < kReturnCodes.size());
  return kReturnCodes[return_code];
}

}  // namespace tutti::mqtt
