#include "tokenizer/regex/pattern_reader.h"

#include <algorithm>

#include "base/quote.h"
#include "base/utf8.h"
#include "tokenizer/regex/syntax.h"

namespace tutti::tokenizer::regex {

bool PatternReader::Take(char c) {
  if (at_end() || text_[position_] != c) return false;
  ++position_;
  return true;
}

bool PatternReader::TakeAll(std::string_view expected) {
  if (!rest().starts_with(expected)) return false;
  position_ += expected.size();
  return true;
}

char32_t PatternReader::TakeCodePoint() {
  const CodePoint c = DecodeAt(text_, position_);
  position_ += c.length;
  return c.code_point;
}

std::optional<uint32_t> PatternReader::TakeNumber() {
  std::optional<uint32_t> number;
  for (char c = Peek(); c >= '0' && c <= '9'; c = Peek()) {
    number =
        std::min<uint32_t>(number.value_or(0) * 10 + static_cast<uint32_t>(c - '0'), 1'000'000);
    Skip(1);
  }
  return number;
}

std::optional<char32_t> PatternReader::TakeHex(size_t min_digits, size_t max_digits) {
  char32_t value = 0;
  size_t digits = 0;
  for (; digits < max_digits; ++digits) {
    const char c = Peek();
    const char lower = static_cast<char>(c | 0x20);
    if (c >= '0' && c <= '9') {
      value = value * 16 + static_cast<char32_t>(c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value * 16 + static_cast<char32_t>(lower - 'a' + 10);
    } else {
      break;
    }
    Skip(1);
  }
  if (digits < min_digits) return std::nullopt;
  return value;
}

Status PatternReader::Refuse(std::string_view what, size_t begin, size_t length) const {
  return InvalidArgument("tokenizer_regex", "split expression has " + std::string(what) + ": " +
                                                Quote(text_.substr(begin, length), 32) + " at " +
                                                std::to_string(begin) + ", not supported");
}

Status PatternReader::TooDeep() const {
  return InvalidArgument("tokenizer_limit", "split expression nests deeper than " +
                                                std::to_string(kMaxNesting) + " at " +
                                                std::to_string(position_));
}

}  // namespace tutti::tokenizer::regex
