// The bodies of packets, for codec.cc alone. A reader's faults are
// those of its WireReader; codec.cc refuses what is left unread behind a packet.
#pragma once

#include "mqtt/codec.h"
#include "mqtt/packet.h"
#include "mqtt/wire.h"

namespace tutti::mqtt {

Packet ReadBody(Version version, const Frame& frame, WireReader& in);
void WriteBody(Version version, const Packet& packet, WireWriter& out);  // of CONNECT: its own
uint8_t PublishFlags(const Publish& packet);  // in the first byte of the packet

}  // namespace tutti::mqtt
