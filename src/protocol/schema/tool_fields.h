// Tool fields of requests: tools, tool_choice and parallel_tool_calls; and the tool calls in
// earlier messages. Pure.
//
// Chat completions nest a function under its type, {"type":"function","function":{"name":"f"}}. The
// Responses API is flat, {"type":"function","name":"f"}, and so is its tool_choice; messages of
// sessions (MQTT, WebSocket) follow it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "protocol/json/json.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol {

// Reads the three fields into `chat`. `object` was checked against a scope that has messages
// (nested form) or of kTurn (flat form). Errors, naming the field: unsupported_parameter for
// another type of tool or choice; missing_required_parameter; invalid_value, also from
// api::ValidateTools().
Status ReadTools(const CheckedObject& object, bool strict, IgnoredFields* ignored,
                 api::ChatPrompt* chat);

// Errors: unsupported_parameter if tools are given for a prompt that uses no template.
Status RefuseTools(const CheckedObject& object);

// Parses the tool_calls of an assistant's message. Arguments may be any text, because clients send
// back calls that were cut by their length. `list` was checked against its row; `path` is
// "messages[1].tool_calls".
Result<std::vector<api::ToolCall>> ReadToolCalls(const JsonArray& list, const std::string& path,
                                                 bool strict, IgnoredFields* ignored);

}  // namespace tutti::protocol
