// CONNECT and CONNACK (sections 3.1 and 3.2 of both versions).
#include "mqtt/packet_codecs.h"
#include "mqtt/topics.h"

namespace tutti::mqtt {
namespace {

// The connect flags (3.1.2.3).
constexpr uint8_t kReserved = 0x01, kCleanStart = 0x02, kWill = 0x04, kWillQos = 0x18,
                  kWillRetain = 0x20, kPassword = 0x40, kUserName = 0x80;
constexpr int kWillQosShift = 3;

// Reads protocol name and level; unsupported ones are a fault.
Version ReadVersion(WireReader& in) {
  const std::string name = in.Utf8();
  const uint8_t level = in.Byte();
  const bool known =
      level == static_cast<uint8_t>(Version::k311) || level == static_cast<uint8_t>(Version::k5);
  if (in.ok() && (name != "MQTT" || !known)) {
    in.Fail(ReasonCode::kUnsupportedVersion, "neither MQTT 3.1.1 nor 5");
  }
  return level == static_cast<uint8_t>(Version::k311) ? Version::k311 : Version::k5;
}

void CheckFlags(Version version, uint8_t flags, WireReader& in) {
  if ((flags & kReserved) != 0) in.Malformed("the reserved connect flag is set");
  if ((flags & kWill) == 0 && (flags & (kWillQos | kWillRetain)) != 0) {
    in.Malformed("flags of a Will without a Will");
  }
  if ((flags & kWillQos) == kWillQos) in.Malformed("a Will of QoS 3");
  if (version == Version::k311 && (flags & kPassword) != 0 && (flags & kUserName) == 0) {
    in.Malformed("a password without a user name");
  }
}

Will ReadWill(Version version, uint8_t flags, WireReader& in) {
  Will will;
  will.qos = static_cast<uint8_t>((flags & kWillQos) >> kWillQosShift);
  will.retain = (flags & kWillRetain) != 0;
  if (version == Version::k5) will.properties = ReadProperties(in, PropertyPlace::kWill);
  will.topic = in.Utf8();
  if (in.ok() && !IsTopicName(will.topic)) {
    in.Fail(ReasonCode::kTopicNameInvalid, "the Will's topic is no topic name");
  }
  will.payload = in.Binary();
  return will;
}

}  // namespace

Connect ReadConnect(const Frame& frame, WireReader& in) {
  Connect packet;
  packet.version = ReadVersion(in);
  if (packet.version == Version::k5 && !frame.minimal_length) {
    in.Malformed("a remaining length that is longer than it need be");
  }
  const uint8_t flags = in.Byte();
  CheckFlags(packet.version, flags, in);
  packet.clean_start = (flags & kCleanStart) != 0;
  packet.keep_alive_s = in.TwoBytes();
  if (packet.version == Version::k5) {
    packet.properties = ReadProperties(in, PlaceIn(PacketType::kConnect));
    if (packet.properties.authentication_data && !packet.properties.authentication_method) {
      in.ProtocolError("authentication data without a method");
    }
  }
  packet.client_id = in.Utf8();
  if ((flags & kWill) != 0) packet.will = ReadWill(packet.version, flags, in);
  if ((flags & kUserName) != 0) packet.user_name = in.Utf8();
  if ((flags & kPassword) != 0) packet.password = in.Binary();
  return packet;
}

void WriteConnect(const Connect& packet, WireWriter& out) {
  uint8_t flags = 0;
  if (packet.clean_start) flags |= kCleanStart;
  if (packet.will) {
    flags |= kWill;
    flags = static_cast<uint8_t>(flags | (packet.will->qos << kWillQosShift));
    if (packet.will->retain) flags |= kWillRetain;
  }
  if (packet.user_name) flags |= kUserName;
  if (packet.password) flags |= kPassword;
  out.Binary("MQTT");
  out.Byte(static_cast<unsigned>(packet.version));
  out.Byte(flags);
  out.TwoBytes(packet.keep_alive_s);
  const bool v5 = packet.version == Version::k5;
  if (v5) WriteProperties(packet.properties, PlaceIn(PacketType::kConnect), out);
  out.Binary(packet.client_id);
  if (packet.will) {
    if (v5) WriteProperties(packet.will->properties, PropertyPlace::kWill, out);
    out.Binary(packet.will->topic);
    out.Binary(packet.will->payload);
  }
  if (packet.user_name) out.Binary(*packet.user_name);
  if (packet.password) out.Binary(*packet.password);
}

Connack ReadConnack(Version version, WireReader& in) {
  Connack packet;
  const uint8_t flags = in.Byte();
  if ((flags & 0xFE) != 0) in.Malformed("reserved acknowledge flags are set");
  packet.session_present = (flags & 1) != 0;
  if (version == Version::k311) {
    const uint8_t code = in.Byte();
    if (code > 5) {
      in.ProtocolError("a return code that CONNACK cannot have");
    } else {
      packet.reason = ReasonOfReturnCode(code);
    }
  } else {
    packet.reason = ReadReason(PacketType::kConnack, in);
    packet.properties = ReadProperties(in, PlaceIn(PacketType::kConnack));
  }
  if (packet.session_present && packet.reason != ReasonCode::kSuccess) {
    in.ProtocolError("a refused connection has no session");
  }
  return packet;
}

void WriteConnack(Version version, const Connack& packet, WireWriter& out) {
  out.Byte(packet.session_present ? 1 : 0);
  if (version == Version::k311) return out.Byte(ReturnCodeOf(packet.reason));
  out.Byte(static_cast<unsigned>(packet.reason));
  WriteProperties(packet.properties, PlaceIn(PacketType::kConnack), out);
}

}  // namespace tutti::mqtt
