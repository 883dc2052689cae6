#include "mqtt/packet_codecs.h"

#include <utility>
#include <variant>

#include "mqtt/topics.h"

namespace tutti::mqtt {
namespace {

// --- shared by several packets ---

// 0 is a protocol error.
uint16_t ReadPacketId(WireReader& in) {
  const uint16_t id = in.TwoBytes();
  if (id == 0) in.ProtocolError("packet identifier 0");
  return id;
}

ReasonCode ReadReason(PacketType type, WireReader& in) {
  const uint8_t code = in.Byte();
  if (!ReasonCodeFits(code, type)) in.ProtocolError("a reason code that this packet cannot have");
  return static_cast<ReasonCode>(code);
}

// The reason and properties of MQTT 5 at a packet's end: both may be left out where the reason is
// success and there are no properties, the properties alone where there are none. 3.1.1 has
// neither.
template <typename Body>
void ReadReasonAndProperties(Version version, PacketType type, WireReader& in, Body& packet) {
  if (version == Version::k311 || in.empty()) return;
  packet.reason = ReadReason(type, in);
  if (!in.empty()) packet.properties = ReadProperties(in, PlaceIn(type));
}

template <typename Body>
void WriteReasonAndProperties(Version version, PacketType type, const Body& packet,
                              WireWriter& out) {
  if (version == Version::k311) return;
  WireWriter list;
  WriteProperties(packet.properties, PlaceIn(type), list);
  const bool bare = list.ok() && list.bytes().size() == 1;  // a length of 0
  if (bare && packet.reason == ReasonCode::kSuccess) return;
  out.Byte(static_cast<unsigned>(packet.reason));
  if (bare) return;
  if (!list.ok()) return out.VariableByteInteger(kMaxVariableByteInteger + 1);
  out.Raw(list.bytes());
}

// The properties of a packet; 3.1.1 has none.
Properties ReadPropertiesOf(Version version, PacketType type, WireReader& in) {
  return version == Version::k5 ? ReadProperties(in, PlaceIn(type)) : Properties();
}

void WritePropertiesOf(Version version, PacketType type, const Properties& properties,
                       WireWriter& out) {
  if (version == Version::k5) WriteProperties(properties, PlaceIn(type), out);
}

// The packet id and properties with which a packet begins.
template <typename Body>
void ReadHead(Version version, PacketType type, WireReader& in, Body& packet) {
  packet.packet_id = ReadPacketId(in);
  packet.properties = ReadPropertiesOf(version, type, in);
}

template <typename Body>
void WriteHead(Version version, PacketType type, const Body& packet, WireWriter& out) {
  out.TwoBytes(packet.packet_id);
  WritePropertiesOf(version, type, packet.properties, out);
}

// --- CONNECT and CONNACK (sections 3.1 and 3.2 of both versions) ---

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

void Read(Version, const Frame& frame, WireReader& in, Connect& packet) {
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
}

void Write(Version version, const Connect& packet, WireWriter& out) {
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
  WritePropertiesOf(version, PacketType::kConnect, packet.properties, out);
  out.Binary(packet.client_id);
  if (packet.will) {
    if (version == Version::k5) WriteProperties(packet.will->properties, PropertyPlace::kWill, out);
    out.Binary(packet.will->topic);
    out.Binary(packet.will->payload);
  }
  if (packet.user_name) out.Binary(*packet.user_name);
  if (packet.password) out.Binary(*packet.password);
}

void Read(Version version, const Frame&, WireReader& in, Connack& packet) {
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
}

void Write(Version version, const Connack& packet, WireWriter& out) {
  out.Byte(packet.session_present ? 1 : 0);
  if (version == Version::k311) return out.Byte(ReturnCodeOf(packet.reason));
  out.Byte(static_cast<unsigned>(packet.reason));
  WriteProperties(packet.properties, PlaceIn(PacketType::kConnack), out);
}

// --- PUBLISH and its acknowledgements (sections 3.3 to 3.7 of both versions) ---

constexpr uint8_t kRetain = 0x01, kQos = 0x06, kDup = 0x08;
constexpr int kQosShift = 1;

void CheckTopic(Version version, const Publish& packet, WireReader& in) {
  if (!in.ok() || IsTopicName(packet.topic)) return;
  if (packet.topic.empty() && version == Version::k5) {
    if (!packet.properties.topic_alias) in.ProtocolError("neither a topic nor an alias of one");
    return;
  }
  in.Fail(ReasonCode::kTopicNameInvalid, "a topic that is no topic name");
}

void Read(Version version, const Frame& frame, WireReader& in, Publish& packet) {
  packet.retain = (frame.flags & kRetain) != 0;
  packet.qos = static_cast<uint8_t>((frame.flags & kQos) >> kQosShift);
  packet.dup = (frame.flags & kDup) != 0;
  if (packet.qos == 3) in.Malformed("QoS 3");
  if (packet.dup && packet.qos == 0) in.Malformed("a duplicate of QoS 0");
  packet.topic = in.Utf8();
  if (packet.qos > 0) packet.packet_id = ReadPacketId(in);
  packet.properties = ReadPropertiesOf(version, PacketType::kPublish, in);
  CheckTopic(version, packet, in);
  packet.payload = std::string(in.Rest());
}

void Write(Version version, const Publish& packet, WireWriter& out) {
  out.Binary(packet.topic);
  if (packet.qos > 0) out.TwoBytes(packet.packet_id);
  WritePropertiesOf(version, PacketType::kPublish, packet.properties, out);
  out.Raw(packet.payload);
}

template <PacketType kType>
void Read(Version version, const Frame&, WireReader& in, PublishAck<kType>& packet) {
  packet.packet_id = ReadPacketId(in);
  ReadReasonAndProperties(version, kType, in, packet);
}

template <PacketType kType>
void Write(Version version, const PublishAck<kType>& packet, WireWriter& out) {
  out.TwoBytes(packet.packet_id);
  WriteReasonAndProperties(version, kType, packet, out);
}

// --- SUBSCRIBE, UNSUBSCRIBE and their acknowledgements (sections 3.8 to 3.11 of both versions) ---

// Subscription options of MQTT 5 (3.8.3.1). In 3.1.1 only the QoS is not reserved.
constexpr uint8_t kSubscriptionQos = 0x03, kNoLocal = 0x04, kRetainAsPublished = 0x08,
                  kRetainHandling = 0x30, kReservedOptions = 0xC0;
constexpr int kRetainHandlingShift = 4;

std::string ReadFilter(WireReader& in) {
  std::string filter = in.Utf8();
  if (in.ok() && !IsTopicFilter(filter)) {
    in.Fail(ReasonCode::kTopicFilterInvalid, "a filter that is no topic filter");
  }
  return filter;
}

Subscription ReadSubscription(Version version, WireReader& in) {
  Subscription subscription;
  subscription.filter = ReadFilter(in);
  const uint8_t options = in.Byte();
  const uint8_t reserved =
      version == Version::k5 ? kReservedOptions : static_cast<uint8_t>(~kSubscriptionQos);
  if ((options & reserved) != 0) in.Malformed("reserved subscription options are set");
  subscription.qos = options & kSubscriptionQos;
  if (subscription.qos == 3) in.Malformed("a subscription of QoS 3");
  subscription.no_local = (options & kNoLocal) != 0;
  subscription.retain_as_published = (options & kRetainAsPublished) != 0;
  subscription.retain_handling =
      static_cast<uint8_t>((options & kRetainHandling) >> kRetainHandlingShift);
  if (subscription.retain_handling == 3) in.ProtocolError("retain handling 3");
  if (subscription.no_local && SharedFilterOf(subscription.filter)) {
    in.ProtocolError("a shared subscription that is not local");
  }
  return subscription;
}

ReasonCode ReadSubackReason(Version version, WireReader& in) {
  if (version == Version::k5) return ReadReason(PacketType::kSuback, in);
  const uint8_t code = in.Byte();
  if (code > 2 && code != 0x80) in.ProtocolError("a return code that SUBACK cannot have");
  return static_cast<ReasonCode>(code);
}

void Read(Version version, const Frame&, WireReader& in, Subscribe& packet) {
  ReadHead(version, PacketType::kSubscribe, in, packet);
  if (in.empty()) in.ProtocolError("no topic filter");
  while (!in.empty()) packet.subscriptions.push_back(ReadSubscription(version, in));
}

void Write(Version version, const Subscribe& packet, WireWriter& out) {
  WriteHead(version, PacketType::kSubscribe, packet, out);
  const bool v5 = version == Version::k5;
  for (const Subscription& subscription : packet.subscriptions) {
    unsigned options = subscription.qos & kSubscriptionQos;
    if (v5) {
      options |= (subscription.no_local ? kNoLocal : 0u) |
                 (subscription.retain_as_published ? kRetainAsPublished : 0u) |
                 static_cast<unsigned>(subscription.retain_handling << kRetainHandlingShift);
    }
    out.Binary(subscription.filter);
    out.Byte(options);
  }
}

void Read(Version version, const Frame&, WireReader& in, Suback& packet) {
  ReadHead(version, PacketType::kSuback, in, packet);
  if (in.empty()) in.ProtocolError("no reason code");
  while (!in.empty()) packet.reasons.push_back(ReadSubackReason(version, in));
}

void Write(Version version, const Suback& packet, WireWriter& out) {
  WriteHead(version, PacketType::kSuback, packet, out);
  const bool v5 = version == Version::k5;
  for (const ReasonCode reason : packet.reasons) {
    out.Byte(v5 || !IsFailure(reason) ? static_cast<unsigned>(reason) : 0x80u);
  }
}

void Read(Version version, const Frame&, WireReader& in, Unsubscribe& packet) {
  ReadHead(version, PacketType::kUnsubscribe, in, packet);
  if (in.empty()) in.ProtocolError("no topic filter");
  while (!in.empty()) packet.filters.push_back(ReadFilter(in));
}

void Write(Version version, const Unsubscribe& packet, WireWriter& out) {
  WriteHead(version, PacketType::kUnsubscribe, packet, out);
  for (const std::string& filter : packet.filters) out.Binary(filter);
}

void Read(Version version, const Frame&, WireReader& in, Unsuback& packet) {
  ReadHead(version, PacketType::kUnsuback, in, packet);
  if (version == Version::k311) return;
  if (in.empty()) in.ProtocolError("no reason code");
  while (!in.empty()) packet.reasons.push_back(ReadReason(PacketType::kUnsuback, in));
}

void Write(Version version, const Unsuback& packet, WireWriter& out) {
  WriteHead(version, PacketType::kUnsuback, packet, out);
  if (version == Version::k311) return;
  for (const ReasonCode reason : packet.reasons) out.Byte(static_cast<unsigned>(reason));
}

// --- DISCONNECT (section 3.14 of both versions) and AUTH (5.0 section 3.15) ---

void Read(Version version, const Frame&, WireReader& in, Disconnect& packet) {
  ReadReasonAndProperties(version, PacketType::kDisconnect, in, packet);
}

void Write(Version version, const Disconnect& packet, WireWriter& out) {
  WriteReasonAndProperties(version, PacketType::kDisconnect, packet, out);
}

// Unlike DISCONNECT an AUTH with a reason always has a property length: both are left out, or none.
void Read(Version, const Frame&, WireReader& in, Auth& packet) {
  if (in.empty()) return;
  packet.reason = ReadReason(PacketType::kAuth, in);
  packet.properties = ReadProperties(in, PlaceIn(PacketType::kAuth));
}

void Write(Version, const Auth& packet, WireWriter& out) {
  if (packet == Auth()) return;
  out.Byte(static_cast<unsigned>(packet.reason));
  WriteProperties(packet.properties, PlaceIn(PacketType::kAuth), out);
}

// --- PINGREQ and PINGRESP, which have no body ---

void Read(Version, const Frame&, WireReader&, Pingreq&) {}
void Read(Version, const Frame&, WireReader&, Pingresp&) {}
void Write(Version, const Pingreq&, WireWriter&) {}
void Write(Version, const Pingresp&, WireWriter&) {}

// A packet of the type with that place in Packet, all fields at their defaults.
template <size_t... kIndex>
Packet EmptyPacket(size_t index, std::index_sequence<kIndex...>) {
  Packet packet;
  ((index == kIndex ? void(packet.emplace<kIndex>()) : void()), ...);
  return packet;
}

}  // namespace

Packet ReadBody(Version version, const Frame& frame, WireReader& in) {
  constexpr size_t kTypes = std::variant_size_v<Packet>;
  const size_t index = static_cast<size_t>(frame.type) - 1;
  if (index >= kTypes) {
    in.Malformed("packet type 0");
    return Pingreq();
  }
  Packet packet = EmptyPacket(index, std::make_index_sequence<kTypes>());
  std::visit([&](auto& body) { Read(version, frame, in, body); }, packet);
  return packet;
}

void WriteBody(Version version, const Packet& packet, WireWriter& out) {
  std::visit([&](const auto& body) { Write(version, body, out); }, packet);
}

uint8_t PublishFlags(const Publish& packet) {
  return static_cast<uint8_t>((packet.dup ? kDup : 0) | ((packet.qos << kQosShift) & kQos) |
                              (packet.retain ? kRetain : 0));
}

}  // namespace tutti::mqtt
