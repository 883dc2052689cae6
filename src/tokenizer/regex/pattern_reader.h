// PatternReader: the place in an expression that a parser has come to. A value, not for two threads
// at once. The text must outlive it and be UTF-8.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::tokenizer::regex {

class PatternReader {
 public:
  explicit PatternReader(std::string_view text) : text_(text) {}

  bool at_end() const { return position_ == text_.size(); }
  size_t position() const { return position_; }
  // Zero where there is no character.
  char Peek() const { return PeekAt(0); }
  char PeekAt(ptrdiff_t ahead) const {
    const size_t at = position_ + static_cast<size_t>(ahead);
    return at < text_.size() ? text_[at] : '\0';
  }
  std::string_view rest() const { return text_.substr(position_); }

  void Skip(size_t bytes) { position_ += std::min(bytes, text_.size() - position_); }
  void Rewind(size_t position) { position_ = position; }
  bool Take(char c);
  bool TakeAll(std::string_view expected);
  char32_t TakeCodePoint();              // needs !at_end()
  std::optional<uint32_t> TakeNumber();  // decimal; 1,000,000 for all greater numbers
  std::optional<char32_t> TakeHex(size_t min_digits, size_t max_digits);

  // tokenizer_regex: the expression has `what`, quoted with its place.
  Status Refuse(std::string_view what, size_t begin, size_t length) const;
  Status TooDeep() const;

 private:
  std::string_view text_;
  size_t position_ = 0;
};

}  // namespace tutti::tokenizer::regex
