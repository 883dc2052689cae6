#include "server/mqtt/chat/project_formatter.h"

namespace tutti::mqtt::chat {
namespace {

// Why a response ended otherwise than well, for a client that gets no response object.
Status ErrorOf(const protocol::ResponseState& end) {
  if (end.status == protocol::ResponseStatus::kCancelled)
    return Status(StatusCode::kCancelled, "cancelled", "the turn was cancelled");
  const std::string code = end.error_code.empty() ? "internal_error" : end.error_code;
  return Status(StatusCode::kInternal, code, end.error_message);
}

}  // namespace

Message ProjectJson(const ProjectAddress& address, std::string type, int64_t seq,
                    std::string payload) {
  Message message;
  message.topic = address.reply.topic;
  message.payload = std::move(payload);
  message.qos = 1;
  message.payload_is_text = true;
  message.content_type = "application/json";
  message.correlation_data = address.correlation;
  message.user_properties = {{"type", std::move(type)}, {"seq", std::to_string(seq)}};
  if (!address.reply.request_id.empty())
    message.user_properties.emplace_back("requestId", address.reply.request_id);
  return message;
}

Message ProjectError(const ProjectAddress& address, int64_t seq, const Status& error) {
  return ProjectJson(address, "error", seq, protocol::ProjectErrorJson(address.reply, error));
}

std::optional<Message> ProjectFormatter::OfDeltas(const Deltas& deltas, int64_t index) const {
  if (!stream_ || deltas.event.reasoning) return std::nullopt;
  return ProjectJson(address_, "chunk", turn(),
                     protocol::ProjectChunkJson(address_.reply, turn(), index, deltas.event.text));
}

std::optional<Message> ProjectFormatter::OfEvent(const responses::LogEntry& entry,
                                                 int64_t index) const {
  if (!entry.terminal()) return std::nullopt;
  const protocol::ResponseState end = response().State();
  const bool well = end.status == protocol::ResponseStatus::kCompleted ||
                    end.status == protocol::ResponseStatus::kIncomplete;
  return well ? Whole(end, index) : ProjectError(address_, turn(), ErrorOf(end));
}

Message ProjectFormatter::Whole(const protocol::ResponseState& end, int64_t index) const {
  if (!stream_ && format_ == ReplyFormat::kText) {
    Message message = ProjectJson(address_, "reply", turn(), end.text);
    message.content_type = "text/plain; charset=utf-8";
    return message;
  }
  return ProjectJson(address_, "reply", turn(),
                     protocol::ProjectReplyJson(address_.reply, turn(),
                                                stream_ ? std::optional(index) : std::nullopt,
                                                end.text, end.usage.value_or(api::Usage{})));
}

std::optional<Message> ProjectFormatter::OfError(const Status& error) const {
  return ProjectError(address_, turn(), error);
}

}  // namespace tutti::mqtt::chat
