#include "server/mqtt/chat/topics.h"

#include <algorithm>
#include <array>
#include <utility>

#include "protocol/json/field_error.h"

namespace tutti::mqtt::chat {
namespace {

using enum Party;

// A verb applies to all sessions, or to the session in the topic.
constexpr auto kRules = std::to_array<TopicRule>({
    {Topic::kIn, "{prefix}/{user}/{session}/in", kUser, kUser, kNobody},
    {Topic::kControl, "{prefix}/{user}/{session}/ctl", kUser, kUser, kNobody},
    {Topic::kOut, "{prefix}/{user}/{session}/out", kNobody, kUser, kUser},
    {Topic::kClientStatus, "{prefix}/{user}/status", kUser, kUser, kNobody},
    {Topic::kOwn, "{prefix}/{user}/{rest}", kNobody, kUser, kUser},
    {Topic::kServerStatus, "{prefix}/server/{rest}", kNobody, kAnybody, kNobody},
    {Topic::kUserInput, "{project}/user_input", kMember, kNobody, kNobody},
    {Topic::kTemplate, "{project}/template", kAdmin, kNobody, kNobody},
    {Topic::kTemplate, "{project}/template/{session}", kAdmin, kNobody, kNobody},
    {Topic::kClear, "{project}/clear", kAdmin, kNobody, kNobody},
    {Topic::kClear, "{project}/clear/{session}", kAdmin, kNobody, kNobody},
    {Topic::kDelete, "{project}/delete", kAdmin, kNobody, kNobody},
    {Topic::kDelete, "{project}/delete/{session}", kAdmin, kNobody, kNobody},
    {Topic::kReply, "{project}/assistant_response/{rest}", kNobody, kMember, kMember},
    {Topic::kProjectStatus, "{project}/status", kNobody, kMember, kNobody},
});

// Default deny: a row without a complete access rule does not compile.
static_assert(std::all_of(kRules.begin(), kRules.end(), [](const TopicRule& rule) {
  return rule.publishes != kUnset && rule.reads != kUnset && rule.answered != kUnset;
}));

constexpr std::string_view kCanonical = "llm/v1";

}  // namespace

std::span<const TopicRule> TopicRules() { return kRules; }

std::string FilterOf(const TopicRule& rule, std::string_view first) {
  std::string filter(first);
  std::string_view rest = rule.pattern.substr(rule.pattern.find('}') + 1);
  while (!rest.empty()) {
    const size_t mark = rest.find('{');
    filter += rest.substr(0, mark);
    if (mark == std::string_view::npos) break;
    rest.remove_prefix(mark);
    filter += rest.starts_with("{rest}") ? '#' : '+';
    rest.remove_prefix(rest.find('}') + 1);
  }
  return filter;
}

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
  if (!Canonical(status_topic).has_value()) return std::nullopt;
  const std::string_view below = status_topic.substr(prefix_.size() + 1);
  const std::string_view user = below.substr(0, below.find('/'));
  if (below.substr(user.size()) != "/status" || !protocol::IsTopicLevel(user)) return std::nullopt;
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
