#include "mqtt/topics.h"

#include <algorithm>

namespace tutti::mqtt {
namespace {

constexpr size_t kMaxBytes = 65'535;
constexpr std::string_view kSharePrefix = "$share/";

bool HasWildcard(std::string_view text) { return text.find_first_of("+#") != text.npos; }

bool IsPlainFilter(std::string_view filter) {
  if (filter.empty()) return false;
  for (TopicWalk levels(filter); !levels.done();) {
    const std::string_view level = levels.Next();
    if (!HasWildcard(level)) continue;
    if (level == "#" && levels.done()) continue;
    if (level != "+") return false;
  }
  return true;
}

}  // namespace

bool IsTopicName(std::string_view topic) {
  return !topic.empty() && topic.size() <= kMaxBytes && !HasWildcard(topic);
}

bool IsTopicFilter(std::string_view filter) {
  if (filter.empty() || filter.size() > kMaxBytes) return false;
  if (!filter.starts_with(kSharePrefix)) return IsPlainFilter(filter);
  const std::string_view rest = filter.substr(kSharePrefix.size());
  const size_t slash = rest.find('/');
  if (slash == std::string_view::npos || slash == 0) return false;
  return !HasWildcard(rest.substr(0, slash)) && IsPlainFilter(rest.substr(slash + 1));
}

size_t TopicLevels(std::string_view topic) {
  return static_cast<size_t>(std::count(topic.begin(), topic.end(), '/')) + 1;
}

std::optional<SharedFilter> SharedFilterOf(std::string_view filter) {
  if (!filter.starts_with(kSharePrefix)) return std::nullopt;
  const std::string_view rest = filter.substr(kSharePrefix.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  return SharedFilter{rest.substr(0, slash), rest.substr(std::min(slash + 1, rest.size()))};
}

bool FilterCovers(std::string_view outer, std::string_view inner) {
  if (inner.starts_with('$') && (outer.starts_with('+') || outer.starts_with('#'))) return false;
  TopicWalk wide(outer), narrow(inner);
  while (!wide.done()) {
    const std::string_view level = wide.Next();
    if (level == "#") return true;  // also of the level above: "a/#" covers "a"
    if (narrow.done()) return false;
    const std::string_view name = narrow.Next();
    if (name == "#") return false;  // asks for more levels than one
    if (level != "+" && level != name) return false;
  }
  return narrow.done();
}

// A topic name is a filter that matches this topic alone.
bool TopicMatches(std::string_view filter, std::string_view topic) {
  return FilterCovers(filter, topic);
}

bool IsPlainText(std::string_view text, size_t most, std::string_view marks) {
  return !text.empty() && text.size() <= most && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           marks.find(c) != std::string_view::npos;
  });
}

}  // namespace tutti::mqtt
