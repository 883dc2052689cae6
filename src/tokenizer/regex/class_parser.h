// ClassParser: bracket classes and the escapes that stand for sets, inside and outside of them.
//
// Bounds what their sets cost, as a short expression can name large ones many times. A value, not
// for two threads at once; the reader must outlive it.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "base/status.h"
#include "tokenizer/regex/char_set.h"
#include "tokenizer/regex/pattern_reader.h"

namespace tutti::tokenizer::regex {

// Ranges of code points that the operations on sets may go through, all together. The largest
// published expressions need 30,000.
inline constexpr size_t kMaxSetWork = 1'000'000;

class ClassParser {
 public:
  explicit ClassParser(PatternReader& in) : in_(in) {}

  // Reads from behind the opening bracket through the closing one. `depth`: number of open
  // brackets.
  Result<CodePoints> TakeBrackets(size_t depth, bool ignore_case);
  // \w \W \s \S \d \D \h \H \p{...} \P{...}; no value if there is another escape.
  Result<std::optional<CodePoints>> TakeClassEscape(WordRule words);
  // A literal character as a set.
  Result<CodePoints> OneCharacter(char32_t c, bool ignore_case, size_t begin);

 private:
  struct Item;
  class Brackets;

  Result<CodePoints> MakeClassEscape(WordRule words);
  Result<CodePoints> TakeProperty(WordRule words);
  // Adds other cases to `set`, which the expression names from `begin` on.
  Status IgnoreCase(CodePoints& set, bool negative, size_t begin);
  Status Charge(size_t ranges);

  PatternReader& in_;
  std::unordered_map<std::string, CodePoints> known_;  // by the text of the escape
  size_t set_work_ = 0;
};

// An escape that stands for one character.
Result<char32_t> TakeCharacterEscape(PatternReader& in, bool in_brackets = false);

}  // namespace tutti::tokenizer::regex
