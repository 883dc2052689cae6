// The few Unicode properties that Python's str methods need, over UTF-8. Pure functions; any
// thread.
//
// A byte that is not part of valid UTF-8 counts as one character (U+FFFD when decoded) and is kept
// as it is.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace tutti::tokenizer::jinja {

// The character that ends before `pos`, pos > 0.
CodePoint DecodeBefore(std::string_view text, size_t pos);
size_t CountCodePoints(std::string_view text);
// Byte offset of the index-th character; text.size() when there are fewer.
size_t OffsetOf(std::string_view text, size_t index);

bool IsSpace(char32_t c);      // str.isspace of one character
bool IsLineBreak(char32_t c);  // a separator of str.splitlines
bool IsPrintable(char32_t c);  // str.isprintable: shown as itself by repr()
bool IsCased(char32_t c);
bool IsUpper(char32_t c);
bool IsLower(char32_t c);
bool IsAlpha(char32_t c);
bool IsDigit(char32_t c);    // str.isdigit
bool IsDecimal(char32_t c);  // str.isdecimal
bool IsNumeric(char32_t c);  // str.isnumeric

// Full case mapping of the root locale.
std::string ToUpper(std::string_view text);
std::string ToLower(std::string_view text);
char32_t ToTitle(char32_t c);

// [begin, end) of `text` without white space (or, with `chars`, without those characters) at its
// ends.
struct Span {
  size_t begin;
  size_t end;
};
Span Strip(std::string_view text, bool left, bool right, const std::u32string* chars = nullptr);
std::u32string Decode(std::string_view text);

// Index of the first `needle` at or after `from`, or npos. Linear time.
size_t Find(std::string_view haystack, std::string_view needle, size_t from = 0);

}  // namespace tutti::tokenizer::jinja
