// The path of a request target, which may hold anything. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tutti::http {

// The path of a request target without its query, or nothing when it is not in canonical form: no
// empty, "." or ".." segments, no escapes of characters that need none, nothing outside printable
// ASCII.
std::optional<std::string> CanonicalPath(std::string_view target);

// What the log shows of a target that may be anything: its path as sent, without scheme, authority
// and query. "-" when it has none, or when the path holds `key` or the text of one of ours, escaped
// or not; an empty key is held by none.
std::string PathForLog(std::string_view target, std::string_view key);

// Of a path, or a part of one, in canonical form: its escapes undone.
std::string DecodedPath(std::string_view text);

}  // namespace tutti::http
