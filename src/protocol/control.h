// Control requests of operators: one JSON object with the member `op` for the request, and one for
// the answer. The services define the operations. Over a control socket an answer is a line,
// {"ok":true,...} or {"ok":false,"code":"invalid_value","message":"..."}; over HTTP it is the body,
// or an error of HTTP. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"

namespace tutti::protocol {

// Writes the members of the answer's object; they are discarded if it returns an error.
using ControlWriter = std::function<Status(const JsonObject& request, JsonWriter* json)>;

// Parses a request and returns the answer, a JSON object. `max_bytes`, `max_values`: limits of the
// request. Errors: request_too_large, those of ParseJson, invalid_value (it is no object), and
// those of `write`.
Result<std::string> AnswerControl(std::string_view request, size_t max_bytes, size_t max_values,
                                  const ControlWriter& write);
// An answer as a line of a control socket.
std::string ControlLine(const Result<std::string>& answer);

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

// The text of member `name` of a request. Errors: invalid_value (it is no text; it is missing).
Result<std::optional<std::string>> OptionalText(const JsonObject& request, std::string_view name);
Result<std::string> RequiredText(const JsonObject& request, std::string_view name);

// A member of a request or an answer; "" or 0: absent, or of another type.
std::string MemberText(const JsonObject& object, std::string_view name);
int64_t MemberNumber(const JsonObject& object, std::string_view name);

}  // namespace tutti::protocol
