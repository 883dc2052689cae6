// Bracket classes and the escapes that stand inside and outside of them. Pure but for the reader.
#pragma once

#include <optional>

#include "base/status.h"
#include "tokenizer/regex/char_set.h"
#include "tokenizer/regex/pattern_reader.h"

namespace tutti::tokenizer::regex {

struct BracketClass {
  CodePoints points;      // before it is negated, as case is ignored before that
  bool negative = false;  // [^...]
};

// Behind the opening bracket, up to and with the closing one. `depth` counts what is open.
Result<BracketClass> ParseBrackets(PatternReader& in, size_t depth);

// \w \W \s \S \d \D \h \H \p{...} \P{...}; nothing where another escape stands.
Result<std::optional<CodePoints>> TakeClassEscape(PatternReader& in, WordRule words);
// An escape that stands for one character.
Result<char32_t> TakeCharacterEscape(PatternReader& in, bool in_brackets = false);

}  // namespace tutti::tokenizer::regex
