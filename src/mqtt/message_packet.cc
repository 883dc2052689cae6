#include "mqtt/message_packet.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/utf8.h"
#include "mqtt/packet.h"
#include "mqtt/topics.h"

namespace tutti::mqtt {
namespace {

using std::chrono::seconds;

constexpr size_t kMaxTextBytes = 65535;
constexpr size_t kMessageOverhead = 256;  // of the structs that carry one, and its place in a queue
// A fixed header, packet id and the numbers of the properties.
constexpr size_t kPacketOverhead = 64;
constexpr size_t kUserPropertyOverhead = 5;  // its id and two lengths

Status Bad(const char* field, const char* must) {
  return InvalidArgument("invalid_value", std::string(field) + " must be " + must).WithParam(field);
}

// An upper bound of what the packet has, a few bytes above it.
size_t PacketBytes(const Message& message) {
  size_t bytes = kPacketOverhead + message.topic.size() + message.payload.size() +
                 message.content_type.size() + message.response_topic.size();
  if (message.correlation_data) bytes += message.correlation_data->size();
  for (const auto& [name, value] : message.user_properties) {
    bytes += name.size() + value.size() + kUserPropertyOverhead;
  }
  return bytes;
}

Properties PropertiesOf(const Message& message) {
  Properties properties;
  if (message.payload_is_text) properties.payload_is_text = true;
  if (!message.content_type.empty()) properties.content_type = message.content_type;
  if (!message.response_topic.empty()) properties.response_topic = message.response_topic;
  properties.correlation_data = message.correlation_data;
  properties.user = message.user_properties;
  return properties;
}

// Common part of Publish and Will, in both directions.
template <typename Packet>
Packet PacketOf(const Message& message) {
  Packet packet;
  packet.topic = message.topic;
  packet.payload = message.payload;
  packet.qos = message.qos;
  packet.retain = message.retain;
  packet.properties = PropertiesOf(message);
  return packet;
}
template <typename Packet>
Message MessageOf(Packet packet) {
  Message message;
  message.topic = std::move(packet.topic);
  message.payload = std::move(packet.payload);
  message.qos = packet.qos;
  message.retain = packet.retain;
  Properties& properties = packet.properties;
  message.payload_is_text = properties.payload_is_text.value_or(false);
  message.content_type = std::move(properties.content_type).value_or("");
  message.response_topic = std::move(properties.response_topic).value_or("");
  message.correlation_data = std::move(properties.correlation_data);
  message.user_properties = std::move(properties.user);
  return message;
}

}  // namespace

bool IsMqttText(std::string_view text) {
  return text.size() <= kMaxTextBytes && text.find('\0') == std::string_view::npos &&
         IsValidUtf8(text);
}

Status CheckMessage(const Message& message, size_t packet_bytes) {
  if (message.qos > 1) return Bad("qos", "0 or 1");
  if (!IsMqttText(message.topic) || !IsTopicName(message.topic)) {
    return Bad("topic", "a topic name: UTF-8 of 1 to 65,535 bytes without + # and U+0000");
  }
  if (!message.response_topic.empty() &&
      (!IsMqttText(message.response_topic) || !IsTopicName(message.response_topic))) {
    return Bad("response_topic", "a topic name: UTF-8 of 1 to 65,535 bytes without + # and U+0000");
  }
  if (!IsMqttText(message.content_type)) {
    return Bad("content_type", "UTF-8 of at most 65,535 bytes without U+0000");
  }
  if (message.correlation_data && message.correlation_data->size() > kMaxTextBytes) {
    return Bad("correlation_data", "of at most 65,535 bytes");
  }
  if (message.user_properties.size() > kMaxUserProperties) {
    return Bad("user_properties", "at most 64");
  }
  for (const auto& [name, value] : message.user_properties) {
    if (!IsMqttText(name) || !IsMqttText(value)) {
      return Bad("user_properties", "UTF-8 of at most 65,535 bytes each without U+0000");
    }
  }
  if (message.payload_is_text && !IsValidUtf8(message.payload)) {
    return Bad("payload", "UTF-8, as payload_is_text says");
  }
  if (const size_t bytes = PacketBytes(message); bytes > packet_bytes) {
    return ResourceExhausted("request_too_large", "the message makes a packet of " +
                                                      std::to_string(bytes) + " bytes, at most " +
                                                      std::to_string(packet_bytes) + " are sent")
        .WithExcess(static_cast<int64_t>(bytes), static_cast<int64_t>(packet_bytes));
  }
  return OkStatus();
}

size_t BytesOf(const Message& message) { return PacketBytes(message) + kMessageOverhead; }

Publish ToPublish(const Message& message, TimePoint now) {
  auto packet = PacketOf<Publish>(message);
  if (message.expires && *message.expires != TimePoint::max()) {
    // Rounded up: a message of less than a second is no message of none.
    const auto left = std::chrono::ceil<seconds>(*message.expires - now).count();
    packet.properties.message_expiry_s =
        static_cast<uint32_t>(std::clamp<int64_t>(left, 1, std::numeric_limits<uint32_t>::max()));
  }
  return packet;
}

Message FromPublish(Publish packet, TimePoint now) {
  const std::optional<uint32_t> expiry_s = packet.properties.message_expiry_s;
  const bool redelivered = packet.dup;
  Message message = MessageOf(std::move(packet));
  message.redelivered = redelivered;
  if (expiry_s) message.expires = now + seconds(*expiry_s);
  return message;
}

Will ToWill(const Message& message) { return PacketOf<Will>(message); }

Message FromWill(Will will) { return MessageOf(std::move(will)); }

}  // namespace tutti::mqtt
