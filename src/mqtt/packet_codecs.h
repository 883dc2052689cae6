// The readers and writers of each packet's body, for codec.cc alone. A reader's faults are those of
// its WireReader; codec.cc refuses what is left unread behind a packet.
#pragma once

#include "mqtt/frame_splitter.h"
#include "mqtt/packet.h"
#include "mqtt/wire_reader.h"
#include "mqtt/wire_writer.h"

namespace tutti::mqtt {

// connect_codec.cc
Connect ReadConnect(const Frame& frame, WireReader& in);
Connack ReadConnack(Version version, WireReader& in);
void WriteConnect(const Connect& packet, WireWriter& out);
void WriteConnack(Version version, const Connack& packet, WireWriter& out);

// publish_codec.cc
Publish ReadPublish(Version version, uint8_t flags, WireReader& in);
template <PacketType kType>
PublishAck<kType> ReadPublishAck(Version version, WireReader& in);
uint8_t PublishFlags(const Publish& packet);
void WritePublish(Version version, const Publish& packet, WireWriter& out);
template <PacketType kType>
void WritePublishAck(Version version, const PublishAck<kType>& packet, WireWriter& out);

// subscribe_codec.cc
Subscribe ReadSubscribe(Version version, WireReader& in);
Suback ReadSuback(Version version, WireReader& in);
Unsubscribe ReadUnsubscribe(Version version, WireReader& in);
Unsuback ReadUnsuback(Version version, WireReader& in);
void WriteSubscribe(Version version, const Subscribe& packet, WireWriter& out);
void WriteSuback(Version version, const Suback& packet, WireWriter& out);
void WriteUnsubscribe(Version version, const Unsubscribe& packet, WireWriter& out);
void WriteUnsuback(Version version, const Unsuback& packet, WireWriter& out);

// goodbye_codec.cc
Disconnect ReadDisconnect(Version version, WireReader& in);
Auth ReadAuth(WireReader& in);
void WriteDisconnect(Version version, const Disconnect& packet, WireWriter& out);
void WriteAuth(const Auth& packet, WireWriter& out);

// Shared by several codecs.
uint16_t ReadPacketId(WireReader& in);  // 0 is a protocol error
ReasonCode ReadReason(PacketType type, WireReader& in);
// The reason and properties of MQTT 5 at a packet's end: both may be left out where the reason is
// success and there are no properties, the properties alone where there are none.
void ReadReasonAndProperties(PacketType type, WireReader& in, ReasonCode& reason,
                             Properties& properties);
void WriteReasonAndProperties(PacketType type, ReasonCode reason, const Properties& properties,
                              WireWriter& out);

}  // namespace tutti::mqtt
