// DISCONNECT (section 3.14 of both versions) and AUTH (5.0 section 3.15): a reason and properties.
#include "mqtt/packet_codecs.h"

namespace tutti::mqtt {

Disconnect ReadDisconnect(Version version, WireReader& in) {
  Disconnect packet;
  if (version == Version::k5) {
    ReadReasonAndProperties(PacketType::kDisconnect, in, packet.reason, packet.properties);
  }
  return packet;
}

void WriteDisconnect(Version version, const Disconnect& packet, WireWriter& out) {
  if (version == Version::k5) {
    WriteReasonAndProperties(PacketType::kDisconnect, packet.reason, packet.properties, out);
  }
}

// Unlike DISCONNECT an AUTH with a reason always has a property length: both are left out, or none.
Auth ReadAuth(WireReader& in) {
  Auth packet;
  if (in.empty()) return packet;
  packet.reason = ReadReason(PacketType::kAuth, in);
  packet.properties = ReadProperties(in, PlaceIn(PacketType::kAuth));
  return packet;
}

void WriteAuth(const Auth& packet, WireWriter& out) {
  if (packet == Auth()) return;
  out.Byte(static_cast<unsigned>(packet.reason));
  WriteProperties(packet.properties, PlaceIn(PacketType::kAuth), out);
}

}  // namespace tutti::mqtt
