// What the operator's commands ask a server, and what it answers: one JSON object each. The answer
// is {"ok":true,...}, or {"ok":false,"code":"invalid_value","message":"..."}. What is asked and
// answered is the services' business. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "wire/json.h"
#include "wire/json_writer.h"

namespace tutti::wire {

// Adds its members to the answer; of an error nothing of them is kept.
using ControlWriter = std::function<Status(const JsonObject& request, JsonWriter* json)>;

// `most_bytes`, `most_values`: of the request. Beyond, or for what is no object, the answer is a
// refusal, as it is for an error of `write`.
std::string AnswerControl(std::string_view request, size_t most_bytes, size_t most_values,
                          const ControlWriter& write);

Status BadControl(std::string_view param, std::string message);
// The operation that is asked for; empty where none is.
std::string_view ControlOperation(const JsonObject& request);

}  // namespace tutti::wire
