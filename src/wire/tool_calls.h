// Calls of functions in answers: put together from the deltas of a stream, and written as chat
// completions have them. Pure.
#pragma once

#include <span>
#include <vector>

#include "api/types.h"
#include "wire/json_writer.h"

namespace tutti::wire {

// Appends deltas of one choice, in the order of its events, to the calls that they make.
void AddCallDeltas(std::span<const api::ToolCallDelta> deltas, std::vector<api::ToolCall>* calls);

// The value of a message's tool_calls.
void WriteToolCalls(std::span<const api::ToolCall> calls, JsonWriter* json);

// The value of a streamed delta's tool_calls, with one element. The first delta of a call has its
// id, type and name.
void WriteToolCallDelta(const api::ToolCallDelta& delta, JsonWriter* json);

}  // namespace tutti::wire
