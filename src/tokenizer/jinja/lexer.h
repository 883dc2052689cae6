// Splits a template into text and tokens, with Jinja's white-space rules: trim_blocks and
// lstrip_blocks on, the last newline of the file dropped, "-" and "+" next to a tag honoured.
//
// Works left to right with one character of look-ahead; linear in the source. Any thread.
// Source of the rules: Jinja 3.1, lexer.py.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tutti::tokenizer::jinja {

enum class TokenType : uint8_t {
  kData,           // template text
  kVariableBegin,  // {{
  kVariableEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kString,  // with its quotes, escapes not yet resolved
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenType type;
  int line;
  std::string_view text;  // into the source given to Tokenize
};

// "\r\n" and "\r" become "\n", and one newline at the end is dropped: what Tokenize expects.
std::string NormaliseNewlines(std::string_view source);

// The tokens, the last one kEnd. They point into `source`. Errors: tokenizer_invalid.
Result<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace tutti::tokenizer::jinja
