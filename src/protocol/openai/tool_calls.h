// Writes tool calls in the format of chat completions. Pure.
#pragma once

#include <span>

#include "api/types.h"
#include "protocol/json/json_writer.h"

namespace tutti::protocol {

// Value of a message's tool_calls.
void WriteToolCalls(std::span<const api::ToolCall> calls, JsonWriter* json);

// Value of a streamed delta's tool_calls, with one element. The first delta of a call has its id,
// type and name.
void WriteToolCallDelta(const api::ToolCallDelta& delta, JsonWriter* json);

}  // namespace tutti::protocol
