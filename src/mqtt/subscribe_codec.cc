// SUBSCRIBE, UNSUBSCRIBE and their acknowledgements (sections 3.8 to 3.11 of both versions).
#include "mqtt/packet_codecs.h"
#include "mqtt/topics.h"

namespace tutti::mqtt {
namespace {

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

}  // namespace

Subscribe ReadSubscribe(Version version, WireReader& in) {
  Subscribe packet;
  packet.packet_id = ReadPacketId(in);
  if (version == Version::k5) {
    packet.properties = ReadProperties(in, PlaceIn(PacketType::kSubscribe));
  }
  if (in.empty()) in.ProtocolError("no topic filter");
  while (!in.empty()) packet.subscriptions.push_back(ReadSubscription(version, in));
  return packet;
}

void WriteSubscribe(Version version, const Subscribe& packet, WireWriter& out) {
  out.TwoBytes(packet.packet_id);
  const bool v5 = version == Version::k5;
  if (v5) WriteProperties(packet.properties, PlaceIn(PacketType::kSubscribe), out);
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

Suback ReadSuback(Version version, WireReader& in) {
  Suback packet;
  packet.packet_id = ReadPacketId(in);
  if (version == Version::k5) {
    packet.properties = ReadProperties(in, PlaceIn(PacketType::kSuback));
  }
  if (in.empty()) in.ProtocolError("no reason code");
  while (!in.empty()) packet.reasons.push_back(ReadSubackReason(version, in));
  return packet;
}

void WriteSuback(Version version, const Suback& packet, WireWriter& out) {
  out.TwoBytes(packet.packet_id);
  const bool v5 = version == Version::k5;
  if (v5) WriteProperties(packet.properties, PlaceIn(PacketType::kSuback), out);
  for (const ReasonCode reason : packet.reasons) {
    out.Byte(v5 || !IsFailure(reason) ? static_cast<unsigned>(reason) : 0x80u);
  }
}

Unsubscribe ReadUnsubscribe(Version version, WireReader& in) {
  Unsubscribe packet;
  packet.packet_id = ReadPacketId(in);
  if (version == Version::k5) {
    packet.properties = ReadProperties(in, PlaceIn(PacketType::kUnsubscribe));
  }
  if (in.empty()) in.ProtocolError("no topic filter");
  while (!in.empty()) packet.filters.push_back(ReadFilter(in));
  return packet;
}

void WriteUnsubscribe(Version version, const Unsubscribe& packet, WireWriter& out) {
  out.TwoBytes(packet.packet_id);
  if (version == Version::k5) {
    WriteProperties(packet.properties, PlaceIn(PacketType::kUnsubscribe), out);
  }
  for (const std::string& filter : packet.filters) out.Binary(filter);
}

Unsuback ReadUnsuback(Version version, WireReader& in) {
  Unsuback packet;
  packet.packet_id = ReadPacketId(in);
  if (version == Version::k311) return packet;
  packet.properties = ReadProperties(in, PlaceIn(PacketType::kUnsuback));
  if (in.empty()) in.ProtocolError("no reason code");
  while (!in.empty()) packet.reasons.push_back(ReadReason(PacketType::kUnsuback, in));
  return packet;
}

void WriteUnsuback(Version version, const Unsuback& packet, WireWriter& out) {
  out.TwoBytes(packet.packet_id);
  if (version == Version::k311) return;
  WriteProperties(packet.properties, PlaceIn(PacketType::kUnsuback), out);
  for (const ReasonCode reason : packet.reasons) out.Byte(static_cast<unsigned>(reason));
}

}  // namespace tutti::mqtt
