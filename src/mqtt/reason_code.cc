#include "mqtt/reason_code.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/check.h"

namespace tutti::mqtt {
namespace {

constexpr uint16_t PacketBit(PacketType type) {
  return static_cast<uint16_t>(1u << static_cast<unsigned>(type));
}

constexpr uint16_t kConnackBit = PacketBit(PacketType::kConnack);
constexpr uint16_t kPublishAcks = PacketBit(PacketType::kPuback) | PacketBit(PacketType::kPubrec);
constexpr uint16_t kReleaseAcks = PacketBit(PacketType::kPubrel) | PacketBit(PacketType::kPubcomp);
constexpr uint16_t kSubackBit = PacketBit(PacketType::kSuback);
constexpr uint16_t kUnsubackBit = PacketBit(PacketType::kUnsuback);
constexpr uint16_t kDisconnectBit = PacketBit(PacketType::kDisconnect);
constexpr uint16_t kAuthBit = PacketBit(PacketType::kAuth);
constexpr uint16_t kBoth = kConnackBit | kDisconnectBit;
constexpr uint16_t kSubacks = kSubackBit | kUnsubackBit;

struct ReasonRow {
  uint8_t code;
  uint16_t packets;  // one bit for each type
};

// Table 2-6 of MQTT 5.0, by code.
constexpr ReasonRow kReasonRows[] = {
    {0x00, kConnackBit | kPublishAcks | kReleaseAcks | kSubacks | kDisconnectBit | kAuthBit},
    {0x01, kSubackBit},
    {0x02, kSubackBit},
    {0x04, kDisconnectBit},
    {0x10, kPublishAcks},
    {0x11, kUnsubackBit},
    {0x18, kAuthBit},
    {0x19, kAuthBit},
    {0x80, kBoth | kPublishAcks | kSubacks},
    {0x81, kBoth},
    {0x82, kBoth},
    {0x83, kBoth | kPublishAcks | kSubacks},
    {0x84, kConnackBit},
    {0x85, kConnackBit},
    {0x86, kConnackBit},
    {0x87, kBoth | kPublishAcks | kSubacks},
    {0x88, kConnackBit},
    {0x89, kBoth},
    {0x8A, kConnackBit},
    {0x8B, kDisconnectBit},
    {0x8C, kBoth},
    {0x8D, kDisconnectBit},
    {0x8E, kDisconnectBit},
    {0x8F, kSubacks | kDisconnectBit},
    {0x90, kBoth | kPublishAcks},
    {0x91, kPublishAcks | kSubacks},
    {0x92, kReleaseAcks},
    {0x93, kDisconnectBit},
    {0x94, kDisconnectBit},
    {0x95, kBoth},
    {0x96, kDisconnectBit},
    {0x97, kBoth | kPublishAcks | kSubackBit},
    {0x98, kDisconnectBit},
    {0x99, kBoth | kPublishAcks},
    {0x9A, kBoth},
    {0x9B, kBoth},
    {0x9C, kBoth},
    {0x9D, kBoth},
    {0x9E, kSubackBit | kDisconnectBit},
    {0x9F, kBoth},
    {0xA0, kDisconnectBit},
    {0xA1, kSubackBit | kDisconnectBit},
    {0xA2, kSubackBit | kDisconnectBit},
};

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
  const auto* row = std::find_if(std::begin(kReasonRows), std::end(kReasonRows),
                                 [code](const ReasonRow& each) { return each.code == code; });
  return row != std::end(kReasonRows) && (row->packets & PacketBit(type)) != 0;
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
