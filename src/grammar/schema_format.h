// The string formats of JSON schema that are enforced, as automata over the characters of a JSON
// string.
//
// Made once in a process and shared; any thread. Sources: RFC 3339 (date, time, date-time,
// duration), RFC 9562 (uuid), RFC 5321 (email), RFC 1123 (hostname), RFC 2673 (ipv4), RFC 4291
// (ipv6), RFC 3986 (uri, uri-reference), RFC 6901 (json-pointer).
#pragma once

#include <memory>
#include <string_view>

#include "grammar/dfa.h"

namespace tutti::grammar {

enum class FormatKind : uint8_t {
  kEnforced,
  kStandard,  // of the specification, and not enforced: refused
  kUnknown,   // an annotation without effect: ignored, as in the specification
};

FormatKind KindOfFormat(std::string_view name);
// Needs kEnforced.
std::shared_ptr<const Dfa> FormatLanguage(std::string_view name);

}  // namespace tutti::grammar
