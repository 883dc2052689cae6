// PUBLISH and its acknowledgements (sections 3.3 to 3.7 of both versions).
#include "mqtt/packet_codecs.h"
#include "mqtt/topics.h"

namespace tutti::mqtt {
namespace {

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

}  // namespace

Publish ReadPublish(Version version, uint8_t flags, WireReader& in) {
  Publish packet;
  packet.retain = (flags & kRetain) != 0;
  packet.qos = static_cast<uint8_t>((flags & kQos) >> kQosShift);
  packet.dup = (flags & kDup) != 0;
  if (packet.qos == 3) in.Malformed("QoS 3");
  if (packet.dup && packet.qos == 0) in.Malformed("a duplicate of QoS 0");
  packet.topic = in.Utf8();
  if (packet.qos > 0) packet.packet_id = ReadPacketId(in);
  if (version == Version::k5) {
    packet.properties = ReadProperties(in, PlaceIn(PacketType::kPublish));
  }
  CheckTopic(version, packet, in);
  packet.payload = std::string(in.Rest());
  return packet;
}

uint8_t PublishFlags(const Publish& packet) {
  return static_cast<uint8_t>((packet.dup ? kDup : 0) | ((packet.qos << kQosShift) & kQos) |
                              (packet.retain ? kRetain : 0));
}

void WritePublish(Version version, const Publish& packet, WireWriter& out) {
  out.Binary(packet.topic);
  if (packet.qos > 0) out.TwoBytes(packet.packet_id);
  if (version == Version::k5) {
    WriteProperties(packet.properties, PlaceIn(PacketType::kPublish), out);
  }
  out.Raw(packet.payload);
}

template <PacketType kType>
PublishAck<kType> ReadPublishAck(Version version, WireReader& in) {
  PublishAck<kType> packet;
  packet.packet_id = ReadPacketId(in);
  if (version == Version::k5) {
    ReadReasonAndProperties(kType, in, packet.reason, packet.properties);
  }
  return packet;
}

template <PacketType kType>
void WritePublishAck(Version version, const PublishAck<kType>& packet, WireWriter& out) {
  out.TwoBytes(packet.packet_id);
  if (version == Version::k5) {
    WriteReasonAndProperties(kType, packet.reason, packet.properties, out);
  }
}

template Puback ReadPublishAck(Version, WireReader&);
template Pubrec ReadPublishAck(Version, WireReader&);
template Pubrel ReadPublishAck(Version, WireReader&);
template Pubcomp ReadPublishAck(Version, WireReader&);
template void WritePublishAck(Version, const Puback&, WireWriter&);
template void WritePublishAck(Version, const Pubrec&, WireWriter&);
template void WritePublishAck(Version, const Pubrel&, WireWriter&);
template void WritePublishAck(Version, const Pubcomp&, WireWriter&);

}  // namespace tutti::mqtt
