#include "server/mqtt/chat/native_address.h"

#include "server/mqtt/chat/reply_to.h"

namespace tutti::mqtt::chat {

Result<NativeAddress> AddressOf(const NativeTopics& topics, const Message& message,
                                const std::string& tenant) {
  const std::optional<protocol::NativeTopic> topic = topics.Parse(message.topic);
  if (!topic.has_value()) return InvalidArgument("invalid_value", "no topic of a session");
  NativeAddress address;
  address.user = topic->user;
  address.session = topic->session;
  address.authenticated = !message.user.empty();
  if (address.authenticated && message.user != address.user) {
    return Status(StatusCode::kPermissionDenied, "insufficient_scope",
                  "the topic belongs to another user");
  }
  address.credential = message.credential;
  address.tenant = address.authenticated ? message.tenant : tenant;
  address.reply_topic = topics.Out(address.user, address.session);
  address.correlation = message.correlation_data;
  if (address.correlation.has_value() && address.correlation->size() > kMaxCorrelationBytes) {
    address.correlation.reset();
    address.refused =
        InvalidArgument("invalid_value", "correlation data has at most " +
                                             std::to_string(kMaxCorrelationBytes) + " bytes");
    return address;
  }
  if (message.response_topic.empty()) return address;
  address.refused = topics.CheckResponse(address.user, message.response_topic);
  if (address.refused.ok()) address.reply_topic = message.response_topic;
  return address;
}

}  // namespace tutti::mqtt::chat
