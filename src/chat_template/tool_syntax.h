// ToolSyntax: how a model family writes tool calls, as data. One table for the parser, the grammar
// and the prompts.
//
// Constant; any thread. Sources: the chat templates that the families publish.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tokenizer/chat_template.h"

namespace tutti::chat_template {

struct ToolSyntax {
  enum class Call : uint8_t {
    kJson,      // {"name": NAME, ARGUMENTS_KEY: {...}}
    kNamed,     // NAME name_end {...}
    kTagged,    // NAME name_end (key_begin KEY key_end VALUE value_end)*
    kPythonic,  // NAME(KEY=VALUE, ...) with Python literals
    kBare,      // NAME{KEY:VALUE,...} with keys as they are and texts between text_quote
    kHarmony,   // messages in channels (harmony.h)
  };
  enum class Id : uint8_t {
    kLong,   // "call_" and 24 letters and digits
    kNine,   // 9 letters and digits
    kIndex,  // "functions.NAME:INDEX"
  };
  std::string_view name;  // of the format: --tool-format, /v1/models
  Call call = Call::kJson;
  // All calls of an answer stand between `begin` and `end`, each between call_begin and call_end.
  // Some of these may be special tokens of the vocabulary. White space at their ends is written,
  // and not required when calls are read.
  std::string_view begin = {}, end = {};
  std::string_view call_begin = {}, call_end = {};
  std::string_view separator = {};  // between two calls
  bool list = false;                // the calls are the elements of a list: [CALL, CALL]
  std::string_view list_begin = "[", list_end = "]";  // with the white space inside them
  bool parallel = true;                               // an answer may hold several calls
  std::string_view name_key = "name", arguments_key = "arguments";  // kJson
  // kJson: a member before the name that counts the calls: {"tool_call_id": "0", ...}. It is no
  // id for clients, as the next answer counts from 0 again.
  std::string_view count_key = {};
  std::string_view name_begin = {};                               // kNamed: before NAME
  std::string_view name_end = {};                                 // kNamed, kTagged
  bool numbered = false;                                          // kNamed: ":INDEX" behind NAME
  std::string_view key_begin = {}, key_end = {}, value_end = {};  // kTagged
  std::string_view text_quote = {};                               // kBare
  Id id = Id::kLong;
  std::string_view marks = {};  // kHarmony: all of its special tokens, one behind the other

  // The text that begins the first call of an answer; empty: the answer begins with the call,
  // without a marker.
  std::string_view marker() const { return begin.empty() ? call_begin : begin; }
};

// For models without a format of their own, whose calls are described in the system message
// (tool_prompt.h). Reads as Hermes' does.
const ToolSyntax& GenericSyntax();

// All formats by name, the generic one among them.
std::span<const ToolSyntax> ToolSyntaxes();
const ToolSyntax* FindToolSyntax(std::string_view name);  // null if the name is unknown

// The format that a template writes in histories and requests; the generic one if it shows no known
// format.
const ToolSyntax& DetectToolSyntax(const tokenizer::ChatTemplate& chat_template);

}  // namespace tutti::chat_template
