// The path of a request target; the target may contain anything. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tutti::http {

// The path of a request target without its query, or nothing when it is not in canonical form: no
// empty, "." or ".." segments, no escapes of characters that need none, nothing outside printable
// ASCII.
std::optional<std::string> CanonicalPath(std::string_view target);

// The path of `target` for logs, as sent, without scheme, authority and query. "-" if there is no
// path, or if the path contains `key` or a text like one of our keys, escaped or not; an empty
// `key` matches nothing.
std::string PathForLog(std::string_view target, std::string_view key);

// Decodes the escapes of a path, or of a part of one, in canonical form.
std::string DecodedPath(std::string_view text);

}  // namespace tutti::http
