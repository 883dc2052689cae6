// The properties of MQTT 5 (section 2.2.2): one struct for all packets, and the table that says
// which may stand where, how often, and with which values.
//
// Plain data; reading and writing them are pure functions over the bytes of one packet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mqtt/reason_code.h"

namespace tutti::mqtt {

class WireReader;
class WireWriter;

inline constexpr size_t kMaxUserProperties = 64;        // of one packet; more are 0x97
inline constexpr uint32_t kNeverExpires = 0xFFFF'FFFF;  // of session_expiry_s

using UserProperty = std::pair<std::string, std::string>;

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

// Reads a property length and that many bytes. Faults are the reader's: unknown here or cut short
// 0x81, twice or out of range 0x82, alias 0 0x94, response topic with a wildcard 0x90.
Properties ReadProperties(WireReader& in, PropertyPlace place);

// Writes the length and those of `properties` that may stand in `place`, in order of their ids.
void WriteProperties(const Properties& properties, PropertyPlace place, WireWriter& out);

}  // namespace tutti::mqtt
