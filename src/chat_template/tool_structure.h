// The grammar of an answer that may or must hold tool calls.
//
// Pure; any thread.
#pragma once

#include <initializer_list>
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

// The special tokens among `all` that occur in the markers, the longest first.
SpecialTokenTexts TokensIn(std::initializer_list<std::string_view> markers,
                           const SpecialTokenTexts& all);

// The special tokens that occur in the format's markers. A model's text shows its calls only if
// these are not skipped.
SpecialTokenTexts MarkerTokens(const ToolSyntax& syntax, const SpecialTokenTexts& all);

// Makes a free text end before `marker`: its first token where that is a special one.
void AddStop(std::string_view marker, const SpecialTokenTexts& tokens, grammar::Structure* text);

// White space around a tag, more than any template writes.
grammar::Structure TagSpace();

// Tags around an answer's text, which the family's models write and clients do not see.
struct AnswerTags {
  std::string open = {}, close = {};  // both empty: no markers
  SpecialTokenTexts tokens = {};      // that occur in them
  bool opened = false;                // the prompt ends within the answer
  bool keep_space = false;            // white space inside the tags belongs to the answer
};
// `answer` alone or between the tags, the closing one of which may be missing.
grammar::Structure BetweenTags(const AnswerTags& tags, grammar::Structure answer);

struct AnswerShape {
  std::vector<api::Tool> tools = {};  // not empty
  api::ToolChoice choice = {};
  bool parallel = true;
  std::optional<grammar::Structure> text = {};  // what an answer without calls must satisfy
  AnswerTags tags = {};                         // around the text; calls stand outside
};

// kAuto: a text, then calls if the model begins one. kNone: a text without calls. kRequired and
// kNamed: calls alone. `tokens`: of MarkerTokens().
grammar::Structure ToolAnswer(const ToolSyntax& syntax, const AnswerShape& shape,
                              const SpecialTokenTexts& tokens);

// How an answer begins that is calls, in formats without a marker. A text that begins otherwise is
// no call, neither for the grammar nor for the parser.
std::vector<std::string> CallStarts(const ToolSyntax& syntax, const std::vector<api::Tool>& tools);

}  // namespace tutti::chat_template
