// Strict JSON parser (RFC 8259) for request bodies, with limits and specific error codes.
//
// Codes: invalid_json (syntax, numbers above 64 significant characters or beyond a double, objects
// above 4,096 members), json_depth (nesting above 64), duplicate_key, invalid_utf8 (malformed
// bytes, unpaired surrogates). The stack used is bounded by the depth limit. Pure; a document is a
// value.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::protocol {

using Json = boost::json::value;
using JsonObject = boost::json::object;
using JsonArray = boost::json::array;

inline constexpr size_t kMaxJsonDepth = 64;
inline constexpr size_t kMaxJsonNumberChars = 64;  // without leading zeros, sign and point
inline constexpr size_t kMaxJsonMembers =
    4096;  // of one object: bounds what crafted equal hashes cost

// A parsed document. Integers that fit are int64 or uint64, all other numbers the nearest double.
// Movable.
class JsonDocument {
 public:
  JsonDocument(boost::json::storage_ptr storage, Json root)
      : storage_(std::move(storage)), root_(std::move(root)) {}
  const Json& root() const { return root_; }

 private:
  boost::json::storage_ptr storage_;  // one arena: freed in one go
  Json root_;
};

// `max_values`: maximum number of all values together; more is invalid_json. The limit exists
// because a value takes up to 100 bytes in memory, and may be written with two characters.
Result<JsonDocument> ParseJson(std::string_view text, size_t max_values = SIZE_MAX);

// View of a string value; valid while the value exists and does not change.
inline std::string_view TextOf(const Json& string) {
  return {string.get_string().data(), string.get_string().size()};
}

// View of a text in an object; empty if `value` is no object, has no such member, or the member is
// no text. Valid as TextOf().
std::string_view TextMember(const Json& value, std::string_view name);

// Compact JSON, with numbers as JsonWriter writes them (4.5, and not boost's 4.5E0).
std::string PrintJson(const Json& value);

}  // namespace tutti::protocol
