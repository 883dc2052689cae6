// ReplyTo: the destination of an answer, stored with the message (sessions::Message::reply_to) for
// a later process. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::mqtt::chat {

// Maximum size of stored correlation data: it is copied into every event, and must not make events
// much larger.
inline constexpr size_t kMaxCorrelationBytes = 4 << 10;

struct ReplyTo {
  std::string server;  // ProfileOptions::server of the profile that accepted the message
  bool native = false;
  std::string topic;
  std::optional<std::string> correlation;  // not stored beyond kMaxCorrelationBytes
  std::string client, request_id;          // of the project profile
};

std::string EncodeReplyTo(const ReplyTo& reply_to);
// Returns nullopt if `text` has another format.
std::optional<ReplyTo> DecodeReplyTo(std::string_view text);

}  // namespace tutti::mqtt::chat
