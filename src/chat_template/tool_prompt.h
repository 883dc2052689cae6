// Tools in prompts: how a model's template takes them; and a chat's tools, earlier calls and their
// results in the forms that chat templates read, or as text for templates without tool support.
//
// Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "chat_template/reasoning_syntax.h"
#include "chat_template/tool_structure.h"
#include "chat_template/tool_syntax.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/jinja/value.h"
#include "tokenizer/vocabulary.h"

namespace tutti::chat_template {

// ToolSupport: how one model uses tools: the format of its calls, and the form in which its
// template expects tools and earlier calls. Immutable once made; any thread.
struct ToolSupport {
  const ToolSyntax* syntax = nullptr;
  bool takes_tools = true;  // else requests with tools are refused
  // The variable in which the template reads the tools; empty: it reads none, and they are
  // described in the system message.
  std::string variable = {};
  // The template writes the calls of earlier turns. Else they are put into their messages' text.
  bool writes_calls = false;
  SpecialTokenTexts marker_tokens = {};  // of the syntax
  // The tags between which the model thinks; null: the template shows none.
  const ReasoningSyntax* reasoning = nullptr;
  SpecialTokenTexts reasoning_tokens = {};  // of its tags

  bool reads_tools() const { return !variable.empty(); }
};

inline bool IsHarmony(const std::optional<ToolSupport>& support) {
  return support && support->syntax->call == ToolSyntax::Call::kHarmony;
}

// `format`: of --tool-format: "auto", the name of a syntax, or "none", which takes no tools and is
// "auto" else. Absent where there is no such syntax.
std::optional<ToolSupport> FindToolSupport(std::string_view format,
                                           const tokenizer::ChatTemplate& chat_template,
                                           const tokenizer::Vocabulary& vocabulary);

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
