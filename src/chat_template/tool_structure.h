// The grammar of an answer that may or must hold tool calls.
//
// Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/types.h"
#include "base/types.h"
#include "chat_template/tool_syntax.h"
#include "grammar/structure.h"

namespace tutti::chat_template {

// Special tokens of a vocabulary, by their text.
using SpecialTokenTexts = std::vector<std::pair<std::string, TokenId>>;

// A marker as text and special tokens.
grammar::Structure MarkerStructure(std::string_view text, const SpecialTokenTexts& tokens);

// The special tokens that occur in the format's markers. A model's text shows its calls only if
// these are not skipped.
SpecialTokenTexts MarkerTokens(const ToolSyntax& syntax, const SpecialTokenTexts& all);

struct AnswerShape {
  std::vector<api::Tool> tools = {};  // not empty
  api::ToolChoice choice = {};
  bool parallel = true;
  std::optional<grammar::Structure> text = {};  // what an answer without calls must satisfy
};

// kAuto: a text, then calls if the model begins one. kNone: a text without calls. kRequired and
// kNamed: calls alone. `tokens`: of MarkerTokens().
grammar::Structure ToolAnswer(const ToolSyntax& syntax, const AnswerShape& shape,
                              const SpecialTokenTexts& tokens);

// The tool's schema, less the keywords that constrain values beyond their types: what the
// arguments of a tool that is not strict satisfy if its whole schema cannot be enforced.
std::string RelaxedSchema(std::string_view schema);

// The schema for the arguments of a tool: that of an object, whatever the client left out.
std::string ArgumentsSchema(std::string_view schema);

}  // namespace tutti::chat_template
