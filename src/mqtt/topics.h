// Topic names and topic filters (MQTT 3.1.1 and 5.0 section 4.7; shared subscriptions 5.0 section
// 4.8.2). Pure functions of text that is valid UTF-8 without U+0000; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace tutti::mqtt {

// Whether a message may be published to `topic`: 1 to 65,535 bytes, no wildcard.
bool IsTopicName(std::string_view topic);

// Whether a client may subscribe to `filter`: `+` only as a whole level, `#` only as the last whole
// level. A shared subscription is `$share/NAME/FILTER` with a name without wildcards and a valid
// filter.
bool IsTopicFilter(std::string_view filter);

// Number of levels: one more than the number of slashes.
size_t TopicLevels(std::string_view topic);

// TopicWalk: walks over the levels of a topic or filter. "a/" has two, the second of them empty.
class TopicWalk {
 public:
  explicit TopicWalk(std::string_view text) : rest_(text) {}
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

// The parts of `$share/NAME/FILTER`. SharedFilterOf() needs IsTopicFilter, and returns nothing if
// `filter` is not shared.
struct SharedFilter {
  std::string_view name, filter;
};
std::optional<SharedFilter> SharedFilterOf(std::string_view filter);

// Whether `filter` matches `topic`. A wildcard as the first level does not match a topic that
// begins with `$` (4.7.2). Needs IsTopicName, and a filter that is not shared.
bool TopicMatches(std::string_view filter, std::string_view topic);

// Whether `outer` matches every topic that `inner` matches: then a client confined to `outer` may
// use `inner`. Needs filters that are not shared.
bool FilterCovers(std::string_view outer, std::string_view inner);

// Whether `text` has 1 to `most` bytes, all of them letters and digits of ASCII or in `marks`:
// names that are safe in topics, client ids and logs.
bool IsPlainText(std::string_view text, size_t most, std::string_view marks);

}  // namespace tutti::mqtt
