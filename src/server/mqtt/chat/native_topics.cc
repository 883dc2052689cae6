#include "server/mqtt/chat/native_topics.h"

#include <utility>

#include "protocol/json/utf8.h"

namespace tutti::mqtt::chat {
namespace {

constexpr std::string_view kCanonical = "llm/v1";

}  // namespace

Result<NativeTopics> NativeTopics::Make(std::string prefix) {
  // With what stands behind it a topic has five levels more, and two names of 128 bytes.
  if (!protocol::IsTopicName(prefix) || prefix.size() > 128)
    return InvalidArgument("invalid_value", "no prefix of topics: " + protocol::Excerpt(prefix));
  return NativeTopics(std::move(prefix));
}

std::optional<std::string> NativeTopics::Canonical(std::string_view topic) const {
  if (!topic.starts_with(prefix_) || topic.size() <= prefix_.size() || topic[prefix_.size()] != '/')
    return std::nullopt;
  return std::string(kCanonical) + std::string(topic.substr(prefix_.size()));
}

std::optional<protocol::NativeTopic> NativeTopics::Parse(std::string_view topic) const {
  const std::optional<std::string> canonical = Canonical(topic);
  if (!canonical.has_value() || !protocol::IsTopicName(topic)) return std::nullopt;
  return protocol::ParseNativeTopic(*canonical);
}

std::optional<std::string> NativeTopics::ClientOf(std::string_view status_topic) const {
  constexpr std::string_view kStatus = "/status";
  const size_t begin = prefix_.size() + 1;
  if (!Canonical(status_topic).has_value() || !status_topic.ends_with(kStatus) ||
      status_topic.size() <= begin + kStatus.size()) {
    return std::nullopt;
  }
  const std::string_view user =
      status_topic.substr(begin, status_topic.size() - begin - kStatus.size());
  if (!protocol::IsTopicLevel(user)) return std::nullopt;
  return std::string(user);
}

std::string NativeTopics::Of(std::string_view user) const {
  return prefix_ + "/" + std::string(user) + "/";
}

std::string NativeTopics::Out(std::string_view user, std::string_view session) const {
  return Of(user) + std::string(session) + "/out";
}

Status NativeTopics::CheckResponse(std::string_view user, std::string_view topic) const {
  if (!protocol::IsTopicName(topic)) return protocol::CheckResponseTopic(user, topic);
  const std::string own = Of(user);
  if (!topic.starts_with(own)) {
    return Status(StatusCode::kPermissionDenied, "insufficient_scope",
                  "the response topic lies outside " + protocol::Excerpt(own))
        .WithParam("response_topic");
  }
  return protocol::CheckResponseTopic(user, *Canonical(topic));
}

}  // namespace tutti::mqtt::chat
