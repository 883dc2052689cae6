// Conversions between messages of the port and PUBLISH packets. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "mqtt/message_port.h"
#include "mqtt/packet.h"

namespace tutti::mqtt {

// Whether MQTT can carry `text` as a string: UTF-8 without U+0000, at most 65,535 bytes.
bool IsMqttText(std::string_view text);

// Checks whether an outgoing message can be sent. Errors: invalid_value, naming the field;
// request_too_large if its packet exceeds `packet_bytes`.
Status CheckMessage(const Message& message, size_t packet_bytes);

// Approximate size of the message in memory: its strings and fixed overhead.
size_t BytesOf(const Message& message);

// Makes an MQTT 5 packet without packet id; encoding for 3.1.1 omits the properties. `expires` must
// be after `now`.
Publish ToPublish(const Message& message, TimePoint now);
Message FromPublish(Publish packet, TimePoint now);
Will ToWill(const Message& message);
Message FromWill(Will will);  // without `expires`, which begins when it is published

}  // namespace tutti::mqtt
