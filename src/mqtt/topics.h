// Topic names and topic filters (MQTT 3.1.1 and 5.0 section 4.7; shared subscriptions 5.0 section
// 4.8.2). Pure functions of text that is valid UTF-8 without U+0000; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace tutti::mqtt {

// What may be published to: 1 to 65,535 bytes, no wildcard.
bool IsTopicName(std::string_view topic);

// What may be subscribed to: `+` only as a whole level, `#` only as the last whole level. Of a
// shared subscription: `$share/NAME/FILTER` with a name without wildcards and a filter that is one.
bool IsTopicFilter(std::string_view filter);

// How many levels: one more than there are slashes.
size_t TopicLevels(std::string_view topic);

// Of `$share/NAME/FILTER`; needs IsTopicFilter.
struct SharedFilter {
  std::string_view name, filter;
};
std::optional<SharedFilter> SharedFilterOf(std::string_view filter);

// Whether a message to `topic` is one that `filter` asks for. A wildcard as the first level does
// not match a topic that begins with `$` (4.7.2). Needs IsTopicName, and a filter that is not
// shared.
bool TopicMatches(std::string_view filter, std::string_view topic);

// Whether every topic that `inner` asks for is one that `outer` asks for too: what makes a jail of
// `outer`. Needs filters that are not shared.
bool FilterCovers(std::string_view outer, std::string_view inner);

}  // namespace tutti::mqtt
