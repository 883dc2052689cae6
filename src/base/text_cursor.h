// TextCursor: the place that a hand-written parser has reached in its text. Parsers derive from it.
//
// A value; not for two threads at once. The text must outlive it.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "base/ascii.h"
#include "base/utf8.h"

namespace tutti {

class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  bool AtEnd() const { return at_ >= text_.size(); }
  // The byte `ahead` bytes further on; zero behind the end.
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  // Passes over `expected` and returns true if the text goes on with it.
  bool Take(std::string_view expected) {
    if (!text_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }
  // Needs !AtEnd().
  char32_t TakeCodePoint() {
    const CodePoint c = DecodeAt(text_, at_);
    at_ += c.length;
    return c.code_point;
  }
  // The value of up to `max_digits` hexadecimal digits, at most 8, which need not be a character.
  // Fewer than `min_digits` are passed over and give nothing.
  std::optional<char32_t> TakeHex(size_t min_digits, size_t max_digits) {
    char32_t value = 0;
    size_t digits = 0;
    for (; digits < max_digits; ++digits) {
      const int digit = HexDigit(Peek());
      if (digit < 0) break;
      value = value * 16 + static_cast<char32_t>(digit);
      ++at_;
    }
    if (digits < min_digits) return std::nullopt;
    return value;
  }

 protected:
  std::string_view text_;
  size_t at_ = 0;  // bytes
};

}  // namespace tutti
