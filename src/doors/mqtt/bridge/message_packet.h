// Between the messages of the port and PUBLISH packets. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "mqtt/message_port.h"
#include "mqtt/packet.h"

namespace tutti::mqtt::bridge {

// Whether MQTT can carry `text` as a string: UTF-8 without U+0000, at most 65,535 bytes.
bool IsMqttText(std::string_view text);

// What of an outgoing message cannot be sent. Errors: invalid_value, naming the field;
// request_too_large, of one that makes a packet of more than `packet_bytes`.
Status CheckMessage(const Message& message, size_t packet_bytes);

// What it takes in memory, about: its texts and the room around them.
size_t BytesOf(const Message& message);

// A packet as MQTT 5 has it, without packet id; 3.1.1 leaves the properties out when it is encoded.
// `expires` must be after `now`.
Publish ToPublish(const Message& message, TimePoint now);
Message FromPublish(Publish packet, TimePoint now);
Will ToWill(const Message& message);

// What PUBACK's reason means to whoever published: OK; not_found where nobody had subscribed;
// insufficient_scope, request_too_large, overloaded, invalid_value, internal_error.
Status StatusOfPuback(ReasonCode reason);

}  // namespace tutti::mqtt::bridge
