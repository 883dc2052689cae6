#include "mqtt/codec.h"

#include <utility>

#include "mqtt/packet_codecs.h"

namespace tutti::mqtt {
namespace {

Packet ReadBody(Version version, const Frame& frame, WireReader& in) {
  switch (frame.type) {
    case PacketType::kConnect:
      return ReadConnect(frame, in);
    case PacketType::kConnack:
      return ReadConnack(version, in);
    case PacketType::kPublish:
      return ReadPublish(version, frame.flags, in);
    case PacketType::kPuback:
      return ReadPublishAck<PacketType::kPuback>(version, in);
    case PacketType::kPubrec:
      return ReadPublishAck<PacketType::kPubrec>(version, in);
    case PacketType::kPubrel:
      return ReadPublishAck<PacketType::kPubrel>(version, in);
    case PacketType::kPubcomp:
      return ReadPublishAck<PacketType::kPubcomp>(version, in);
    case PacketType::kSubscribe:
      return ReadSubscribe(version, in);
    case PacketType::kSuback:
      return ReadSuback(version, in);
    case PacketType::kUnsubscribe:
      return ReadUnsubscribe(version, in);
    case PacketType::kUnsuback:
      return ReadUnsuback(version, in);
    case PacketType::kPingreq:
      return Pingreq();
    case PacketType::kPingresp:
      return Pingresp();
    case PacketType::kDisconnect:
      return ReadDisconnect(version, in);
    case PacketType::kAuth:
      return ReadAuth(in);
  }
  in.Malformed("packet type 0");
  return Pingreq();
}

struct WriteBody {
  Version version;
  WireWriter& out;
  void operator()(const Connect& packet) const { WriteConnect(packet, out); }
  void operator()(const Connack& packet) const { WriteConnack(version, packet, out); }
  void operator()(const Publish& packet) const { WritePublish(version, packet, out); }
  template <PacketType kType>
  void operator()(const PublishAck<kType>& packet) const {
    WritePublishAck(version, packet, out);
  }
  void operator()(const Subscribe& packet) const { WriteSubscribe(version, packet, out); }
  void operator()(const Suback& packet) const { WriteSuback(version, packet, out); }
  void operator()(const Unsubscribe& packet) const { WriteUnsubscribe(version, packet, out); }
  void operator()(const Unsuback& packet) const { WriteUnsuback(version, packet, out); }
  void operator()(const Pingreq&) const {}
  void operator()(const Pingresp&) const {}
  void operator()(const Disconnect& packet) const { WriteDisconnect(version, packet, out); }
  void operator()(const Auth& packet) const { WriteAuth(packet, out); }
};

uint8_t FlagsOf(const Packet& packet) {
  switch (TypeOf(packet)) {
    case PacketType::kPublish:
      return PublishFlags(std::get<Publish>(packet));
    case PacketType::kPubrel:
    case PacketType::kSubscribe:
    case PacketType::kUnsubscribe:
      return 2;
    default:
      return 0;
  }
}

// Whether the ids, topics and lists are there that the packet cannot do without.
struct IsComplete {
  bool operator()(const Publish& packet) const {
    return (!packet.topic.empty() || packet.properties.topic_alias) && packet.qos <= 2 &&
           (packet.qos == 0 || packet.packet_id != 0);
  }
  template <PacketType kType>
  bool operator()(const PublishAck<kType>& packet) const {
    return packet.packet_id != 0;
  }
  bool operator()(const Subscribe& packet) const {
    return packet.packet_id != 0 && !packet.subscriptions.empty();
  }
  bool operator()(const Suback& packet) const { return packet.packet_id != 0; }
  bool operator()(const Unsubscribe& packet) const {
    return packet.packet_id != 0 && !packet.filters.empty();
  }
  bool operator()(const Unsuback& packet) const { return packet.packet_id != 0; }
  template <typename Other>
  bool operator()(const Other&) const {
    return true;
  }
};

Status Inexpressible(const Packet& packet) {
  return InvalidArgument("invalid_value", std::string(PacketTypeName(TypeOf(packet))) +
                                              " packet cannot be encoded: a field is missing or "
                                              "longer than 65,535 bytes, or the packet exceeds 256 "
                                              "MiB");
}

}  // namespace

Decoded Decode(Version version, const Frame& frame) {
  WireReader in(frame.body);
  Decoded decoded;
  if (frame.type == PacketType::kAuth && version == Version::k311) {
    decoded.fault = Fault{ReasonCode::kMalformedPacket, "AUTH does not exist in MQTT 3.1.1"};
    return decoded;
  }
  if (frame.type != PacketType::kConnect && version == Version::k5 && !frame.minimal_length) {
    in.Malformed("a remaining length that is longer than it need be");
  }
  decoded.packet = ReadBody(version, frame, in);
  if (!in.empty()) in.Malformed("bytes behind the packet's last field");
  decoded.fault = in.fault();
  return decoded;
}

Version VersionToAnswer(const Frame& connect) {
  WireReader in(connect.body);
  in.Utf8();
  const uint8_t level = in.Byte();
  return in.ok() && level >= static_cast<uint8_t>(Version::k5) && level < 0x80 ? Version::k5
                                                                               : Version::k311;
}

Result<std::string> Encode(Version version, const Packet& packet) {
  if (const auto* connect = std::get_if<Connect>(&packet)) version = connect->version;
  if (version == Version::k311 && std::holds_alternative<Auth>(packet)) {
    return Inexpressible(packet);
  }
  WireWriter body;
  std::visit(WriteBody{version, body}, packet);
  WireWriter out;
  out.Byte(static_cast<unsigned>(TypeOf(packet)) << 4 | FlagsOf(packet));
  out.VariableByteInteger(body.bytes().size());
  if (!body.ok() || !out.ok() || !std::visit(IsComplete(), packet)) return Inexpressible(packet);
  out.Raw(body.bytes());
  return out.Release();
}

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

void ReadReasonAndProperties(PacketType type, WireReader& in, ReasonCode& reason,
                             Properties& properties) {
  if (in.empty()) return;
  reason = ReadReason(type, in);
  if (!in.empty()) properties = ReadProperties(in, PlaceIn(type));
}

void WriteReasonAndProperties(PacketType type, ReasonCode reason, const Properties& properties,
                              WireWriter& out) {
  WireWriter list;
  WriteProperties(properties, PlaceIn(type), list);
  const bool bare = list.ok() && list.bytes().size() == 1;  // a length of 0
  if (bare && reason == ReasonCode::kSuccess) return;
  out.Byte(static_cast<unsigned>(reason));
  if (bare) return;
  if (!list.ok()) return out.VariableByteInteger(kMaxVariableByteInteger + 1);
  out.Raw(list.bytes());
}

}  // namespace tutti::mqtt
