// Readers of an expression's text: PatternReader for its characters, ClassParser for its classes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/status.h"
#include "base/text_cursor.h"
#include "tokenizer/regex/char_set.h"

namespace tutti::tokenizer::regex {

// PatternReader: the place in an expression that a parser has come to. A value, not for two threads
// at once. The text must outlive it and be UTF-8.
class PatternReader : private TextCursor {
 public:
  explicit PatternReader(std::string_view text) : TextCursor(text) {}

  bool at_end() const { return AtEnd(); }
  size_t position() const { return at_; }
  // Zero where there is no character.
  char Peek() const { return PeekAt(0); }
  char PeekAt(ptrdiff_t ahead) const {
    const size_t at = at_ + static_cast<size_t>(ahead);
    return at < text_.size() ? text_[at] : '\0';
  }
  std::string_view rest() const { return text_.substr(at_); }

  void Skip(size_t bytes) { at_ += std::min(bytes, text_.size() - at_); }
  void Rewind(size_t position) { at_ = position; }
  bool Take(char c);
  bool TakeAll(std::string_view expected) { return TextCursor::Take(expected); }
  using TextCursor::TakeCodePoint;
  using TextCursor::TakeHex;
  std::optional<uint32_t> TakeNumber();  // decimal; 1,000,000 for all greater numbers

  // tokenizer_regex: the expression has `what`, quoted with its place.
  Status Refuse(std::string_view what, size_t begin, size_t length) const;
  Status TooDeep() const;
};

// Ranges of code points that the operations on sets may go through, all together. The largest
// published expressions need 30,000.
inline constexpr size_t kMaxSetWork = 1'000'000;

// ClassParser: bracket classes and the escapes that stand for sets, inside and outside of them.
//
// Bounds what their sets cost, as a short expression can name large ones many times. A value, not
// for two threads at once; the reader must outlive it.
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
