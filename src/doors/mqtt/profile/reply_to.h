// ReplyTo: where an answer belongs, as the store keeps it beside the message (sessions::Message::
// reply_to), for the process after this one. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::mqtt::profile {

// That are sent back, in every event: it is not to make them much larger.
inline constexpr size_t kMostCorrelationBytes = 4 << 10;

struct ReplyTo {
  std::string door;  // ProfileOptions::door of whoever took the message
  bool native = false;
  std::string topic;
  std::optional<std::string> correlation;  // beyond kMostCorrelationBytes it is not kept
  std::string client, request_id;          // of the project profile
};

std::string EncodeReplyTo(const ReplyTo& reply_to);
// Nothing where it was written by something else.
std::optional<ReplyTo> DecodeReplyTo(std::string_view text);

}  // namespace tutti::mqtt::profile
