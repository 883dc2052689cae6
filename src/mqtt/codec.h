// Decoding and encoding of packets (MQTT 3.1.1 and 5.0, sections 2 and 3). Pure functions; any
// thread.
//
// Checks the content of each packet by itself, with the reason codes of the standard; rules of the
// connection (allowed senders, order, known aliases) are not checked here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "mqtt/frame_splitter.h"
#include "mqtt/packet.h"
#include "mqtt/reason_code.h"

namespace tutti::mqtt {

// A packet, or the reason why the bytes are not a packet.
struct Decoded {
  Packet packet;
  std::optional<Fault> fault;  // then `packet` means nothing
  bool ok() const { return !fault.has_value(); }
};

// CONNECT is read as the version that it names, every other packet as `version`.
// Faults: 0x81 malformed, 0x82 protocol error, 0x84 version, 0x8F filter, 0x90 topic, 0x94 alias,
// 0x97 too many user properties.
Decoded Decode(Version version, const Frame& frame);

// The version for the answer to a CONNECT that Decode() has refused: 5.0 if it names that or a
// later one, else 3.1.1.
Version VersionToAnswer(const Frame& connect);

// A whole packet with its fixed header. Error: invalid_value, of a field or packet longer than the
// protocol can express, a topic or id that is missing, or AUTH in 3.1.1.
Result<std::string> Encode(Version version, const Packet& packet);  // CONNECT: as its own version

}  // namespace tutti::mqtt
