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

}  // namespace tutti::mqtt
