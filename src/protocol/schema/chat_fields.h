// Fields of requests with messages: text parts of their content; tools and the calls in earlier
// messages; options of the chat template. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "protocol/json/json.h"
#include "protocol/json/text_content.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol {

// --- content of messages ---

// The text of one part of a list; `path` names it in errors.
using PartReader = std::function<Result<std::string>(const Json& part, const std::string& path)>;
// A string, or text parts joined with a line break. `param` names `content` in errors, which are
// invalid_value and those of `read_part`.
Result<TextContent> ReadTextContent(const Json& content, const std::string& param,
                                    const PartReader& read_part);

// --- tools, tool_choice and parallel_tool_calls; tool calls in earlier messages ---
//
// Chat completions nest a function under its type, {"type":"function","function":{"name":"f"}}. The
// Responses API is flat, {"type":"function","name":"f"}, and so is its tool_choice; messages of
// sessions (MQTT, WebSocket) follow it.

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

// --- options of the chat template ---
//
// chat_template_kwargs, and the separate fields reasoning_effort and enable_thinking. The gateway
// checks them against the model's template (gateway/prompt.h).

inline constexpr size_t kMaxTemplateArgumentBytes = 16 << 10;
inline constexpr size_t kMaxTemplateArgumentDepth = 16;

// As api::ChatPrompt::template_arguments: a JSON object as text, with its members in order of their
// names; empty where nothing is asked. `object` has been checked against a scope that prompts a
// model with messages. Errors: invalid_value for one that is nested too deep.
// `effort` and `thinking`: values of reasoning_effort and enable_thinking that another field has
// set; empty and nullopt: none has. The effort "none" turns thinking off where the template can.
Result<std::string> ReadTemplateArguments(const CheckedObject& object, std::string_view effort = "",
                                          std::optional<bool> thinking = std::nullopt);
// Like ReadTemplateArguments, for an object given as text, from servers whose requests are not
// JSON. `param` names it in errors, which include those of ParseJson.
Result<std::string> ParseTemplateArguments(std::string_view text, const std::string& param);

// Errors: unsupported_parameter if template options are given for a prompt that uses no template.
Status RefuseTemplateArguments(const CheckedObject& object);

}  // namespace tutti::protocol
