#include "mqtt/topics.h"

#include <algorithm>

namespace tutti::mqtt {
namespace {

constexpr size_t kMaxBytes = 65'535;
constexpr std::string_view kSharePrefix = "$share/";

// Walks over the levels of a topic or filter. "a/" has two, the second of them empty.
class Levels {
 public:
  explicit Levels(std::string_view text) : rest_(text) {}
  bool done() const { return done_; }
  std::string_view Next() {
    const size_t slash = rest_.find('/');
    const std::string_view level = rest_.substr(0, slash);
    done_ = slash == std::string_view::npos;
    rest_.remove_prefix(done_ ? rest_.size() : slash + 1);
    return level;
  }

 private:
  std::string_view rest_;
  bool done_ = false;
};

bool HasWildcard(std::string_view text) { return text.find_first_of("+#") != text.npos; }

bool IsPlainFilter(std::string_view filter) {
  if (filter.empty()) return false;
  for (Levels levels(filter); !levels.done();) {
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

bool TopicMatches(std::string_view filter, std::string_view topic) {
  if (topic.starts_with('$') && (filter.starts_with('+') || filter.starts_with('#'))) return false;
  Levels wanted(filter), given(topic);
  while (!wanted.done()) {
    const std::string_view level = wanted.Next();
    if (level == "#") return true;  // also of the level above: "a/#" matches "a"
    if (given.done()) return false;
    const std::string_view name = given.Next();
    if (level != "+" && level != name) return false;
  }
  return given.done();
}

bool FilterCovers(std::string_view outer, std::string_view inner) {
  if (inner.starts_with('$') && (outer.starts_with('+') || outer.starts_with('#'))) return false;
  Levels wide(outer), narrow(inner);
  while (!wide.done()) {
    const std::string_view level = wide.Next();
    if (level == "#") return true;
    if (narrow.done()) return false;
    const std::string_view name = narrow.Next();
    if (name == "#") return false;  // asks for more levels than one
    if (level != "+" && level != name) return false;
  }
  return narrow.done();
}

}  // namespace tutti::mqtt
