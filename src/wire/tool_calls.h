// Writes calls of functions in answers as chat completions have them. Pure.
#pragma once

#include <span>

#include "api/types.h"
#include "wire/json_writer.h"

namespace tutti::wire {

// The value of a message's tool_calls.
void WriteToolCalls(std::span<const api::ToolCall> calls, JsonWriter* json);

// The value of a streamed delta's tool_calls, with one element. The first delta of a call has its
// id, type and name.
void WriteToolCallDelta(const api::ToolCallDelta& delta, JsonWriter* json);

}  // namespace tutti::wire
