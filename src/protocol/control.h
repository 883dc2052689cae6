// Envelope of control requests from the operator's commands: one JSON object for the request and
// one for the answer, {"ok":true,...} or {"ok":false,"code":"invalid_value","message":"..."}. The
// services define the operations. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"

namespace tutti::protocol {

// Writes the members of the answer; they are discarded if it returns an error.
using ControlWriter = std::function<Status(const JsonObject& request, JsonWriter* json)>;

// Parses a request and makes the answer. `max_bytes`, `max_values`: limits of the request. The
// answer is an error if the request exceeds them or is not an object, or if `write` fails.
std::string AnswerControl(std::string_view request, size_t max_bytes, size_t max_values,
                          const ControlWriter& write);

Status BadControl(std::string_view param, std::string message);
// The operation of a request; empty if there is none.
std::string_view ControlOperation(const JsonObject& request);
// Whether `request` is one whose operation begins with `prefix`, such as "cache.".
bool HasOperation(std::string_view request, std::string_view prefix);

// The value of member `name` of a request, a text or a whole number from `low` to `high`. Errors:
// invalid_value; `rule` completes "<name> must be ".
Result<std::string> ControlText(const Json& value, std::string_view name);
Result<int64_t> ControlNumber(const Json& value, std::string_view name, int64_t low, int64_t high,
                              const std::string& rule);

// A member of a request or an answer; "" or 0: absent, or of another type.
std::string MemberText(const JsonObject& object, std::string_view name);
int64_t MemberNumber(const JsonObject& object, std::string_view name);

}  // namespace tutti::protocol
