#include "protocol/chat/topic.h"

#include <algorithm>
#include <vector>

#include "protocol/json/field_error.h"

namespace tutti::protocol {
namespace {

constexpr std::string_view kRoot = "llm/v1/";
constexpr size_t kMaxUserBytes = 128;

std::vector<std::string_view> Levels(std::string_view topic) {
  std::vector<std::string_view> levels;
  while (true) {
    const size_t slash = topic.find('/');
    levels.push_back(topic.substr(0, slash));
    if (slash == std::string_view::npos) return levels;
    topic.remove_prefix(slash + 1);
  }
}

bool IsReserved(std::string_view user) { return user == "server" || user == "jobs"; }

std::string_view ChannelName(NativeChannel channel) {
  switch (channel) {
    case NativeChannel::kIn:
      return "in";
    case NativeChannel::kCtl:
      return "ctl";
    case NativeChannel::kOut:
      return "out";
  }
  return "out";
}

}  // namespace

bool IsTopicLevel(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  });
}

Status CheckLevel(const std::string& name, const char* param) {
  if (name.empty() || IsTopicLevel(name)) return OkStatus();
  return BadValue(param, std::string(param) + " may hold letters, digits, '_', '.' and '-'");
}

bool IsUserLevel(std::string_view name) {
  return IsTopicLevel(name) && name.size() <= kMaxUserBytes && !IsReserved(name);
}

bool IsTopicName(std::string_view topic) {
  if (topic.size() > kMaxTopicBytes) return false;
  const std::vector<std::string_view> levels = Levels(topic);
  return levels.size() <= kMaxTopicLevels &&
         std::all_of(levels.begin(), levels.end(), IsTopicLevel);
}

std::optional<NativeTopic> ParseNativeTopic(std::string_view topic) {
  if (!topic.starts_with(kRoot) || !IsTopicName(topic)) return std::nullopt;
  const std::vector<std::string_view> levels = Levels(topic.substr(kRoot.size()));
  if (levels.size() != 3 || IsReserved(levels[0])) return std::nullopt;
  for (const auto channel : {NativeChannel::kIn, NativeChannel::kCtl, NativeChannel::kOut}) {
    if (levels[2] == ChannelName(channel))
      return NativeTopic{std::string(levels[0]), std::string(levels[1]), channel};
  }
  return std::nullopt;
}

std::string BuildNativeTopic(const NativeTopic& topic) {
  return std::string(kRoot) + topic.user + "/" + topic.session + "/" +
         std::string(ChannelName(topic.channel));
}

Status CheckResponseTopic(std::string_view user, std::string_view topic) {
  const std::string param = "response_topic";
  if (!IsTopicName(topic)) {
    return BadValue(param, "the response topic is no topic that can be written: " + Excerpt(topic));
  }
  const std::string own = std::string(kRoot) + std::string(user) + "/";
  const bool below = IsTopicLevel(user) && !IsReserved(user) && topic.starts_with(own);
  if (!below) {
    return Status(StatusCode::kPermissionDenied, "insufficient_scope",
                  "the response topic lies outside " + Excerpt(own))
        .WithParam(param);
  }
  const std::optional<NativeTopic> channel = ParseNativeTopic(topic);
  const bool spoken = channel.has_value() && channel->channel != NativeChannel::kOut;
  if (spoken || topic.substr(own.size()) == "status") {
    return BadValue(param, "the response topic is one that its client publishes to");
  }
  return OkStatus();
}

}  // namespace tutti::protocol
