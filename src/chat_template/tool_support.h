// ToolSupport: how one model uses tools: the format of its calls, and the form in which its
// template expects tools and earlier calls.
//
// Immutable once made; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "chat_template/reasoning_syntax.h"
#include "chat_template/tool_structure.h"
#include "chat_template/tool_syntax.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/vocabulary.h"

namespace tutti::chat_template {

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

}  // namespace tutti::chat_template
