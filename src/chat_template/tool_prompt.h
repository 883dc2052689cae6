// Tools in prompts: converts a chat's tools, earlier calls and their results to the forms that chat
// templates read, or to text for templates without tool support.
//
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "chat_template/tool_syntax.h"
#include "tokenizer/jinja/value.h"

namespace tutti::chat_template {

// {"name": ..., "description": ..., "parameters": {...}}: the definition of a tool as JSON text.
std::string ToolDefinition(const api::Tool& tool);

// For templates that read no tools: the system message lists them and explains how to call them.
// docs/tools.md has the wording.
api::ChatPrompt DescribeTools(const ToolSyntax& syntax, api::ChatPrompt chat);
// For templates that know no calls: those of the assistant become text, results become messages of
// the user.
api::ChatPrompt WriteToolsAsText(const ToolSyntax& syntax, const api::ChatPrompt& chat);

// Calls as the model writes them, for templates that leave out those of earlier turns.
std::string WriteCalls(const ToolSyntax& syntax, const std::vector<api::ToolCall>& calls);

// [{"type": "function", "function": {...}}], as transformers' templates read `tools`. Errors:
// invalid_json (a schema that is no JSON).
Result<tokenizer::jinja::Value> ToolValues(const std::vector<api::Tool>& tools);
// The calls of a message, with arguments as a dict. Errors: invalid_json.
Result<tokenizer::jinja::Value> ToolCallValues(const ToolSyntax& syntax,
                                               const std::vector<api::ToolCall>& calls);
// An id as the format's templates take it: Mistral's refuse any but 9 letters and digits.
std::string HistoryId(const ToolSyntax& syntax, std::string_view id);

}  // namespace tutti::chat_template
