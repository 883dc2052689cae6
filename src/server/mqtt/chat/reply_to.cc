#include "server/mqtt/chat/reply_to.h"

#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"

namespace tutti::mqtt::chat {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

// Correlation data is bytes, and JSON holds text.
std::string ToHex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::optional<std::string> FromHex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    const size_t high = kDigits.find(text[i]), low = kDigits.find(text[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

}  // namespace

std::string EncodeReplyTo(const ReplyTo& reply_to) {
  std::string out;
  protocol::JsonWriter json(&out);
  json.BeginObject().Member("server", reply_to.server).Member("native", reply_to.native);
  json.Member("topic", reply_to.topic);
  if (reply_to.correlation.has_value() && reply_to.correlation->size() <= kMaxCorrelationBytes)
    json.Member("correlation", ToHex(*reply_to.correlation));
  if (!reply_to.client.empty()) json.Member("client", reply_to.client);
  if (!reply_to.request_id.empty()) json.Member("request_id", reply_to.request_id);
  json.EndObject();
  return out;
}

std::optional<ReplyTo> DecodeReplyTo(std::string_view text) {
  const Result<protocol::JsonDocument> document = protocol::ParseJson(text);
  if (!document.ok() || !document->root().is_object()) return std::nullopt;
  const protocol::JsonObject& fields = document->root().get_object();
  const auto text_of = [&](std::string_view name) -> std::optional<std::string> {
    const protocol::Json* value = fields.if_contains(name);
    if (value == nullptr || !value->is_string()) return std::nullopt;
    return std::string(value->get_string().data(), value->get_string().size());
  };
  std::optional<std::string> server = text_of("server");
  if (!server.has_value()) server = text_of("door");  // of a store that an older version wrote
  const std::optional<std::string> topic = text_of("topic");
  const protocol::Json* native = fields.if_contains("native");
  if (!server.has_value() || !topic.has_value() || native == nullptr || !native->is_bool())
    return std::nullopt;
  ReplyTo reply_to{.server = *server,
                   .native = native->get_bool(),
                   .topic = *topic,
                   .correlation = {},
                   .client = text_of("client").value_or(""),
                   .request_id = text_of("request_id").value_or("")};
  if (const auto hex = text_of("correlation"); hex.has_value()) {
    reply_to.correlation = FromHex(*hex);
    if (!reply_to.correlation.has_value()) return std::nullopt;
  }
  return reply_to;
}

}  // namespace tutti::mqtt::chat
