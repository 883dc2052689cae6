#include "tokenizer/jinja/unicode.h"

#include <string.h>
#include <unicode/ucasemap.h>
#include <unicode/uchar.h>

namespace tutti::tokenizer::jinja {
namespace {

using CaseFunction = int32_t (*)(const UCaseMap*, char*, int32_t, const char*, int32_t,
                                 UErrorCode*);

std::string MapCase(std::string_view text, CaseFunction function, char low, char high, int shift) {
  std::string mapped(text);
  bool ascii = true;
  for (char& c : mapped) {
    if (static_cast<unsigned char>(c) >= 0x80) {
      ascii = false;
      break;
    }
    if (c >= low && c <= high) c = static_cast<char>(c + shift);
  }
  if (ascii) return mapped;
  constexpr size_t kIcuLimit = size_t{1}
                               << 29;  // ICU counts in int32, and a mapping may grow threefold
  UErrorCode error = U_ZERO_ERROR;
  UCaseMap* map = text.size() < kIcuLimit ? ucasemap_open("", 0, &error) : nullptr;
  if (map == nullptr) return std::string(text);
  mapped.resize(text.size() * 3);
  const int32_t size = function(map, mapped.data(), static_cast<int32_t>(mapped.size()),
                                text.data(), static_cast<int32_t>(text.size()), &error);
  ucasemap_close(map);
  if (U_FAILURE(error)) return std::string(text);
  mapped.resize(static_cast<size_t>(size));
  return mapped;
}

}  // namespace

CodePoint DecodeBefore(std::string_view text, size_t pos) {
  for (size_t length = 1; length <= 4 && length <= pos; ++length) {
    const CodePoint c = DecodeAt(text.substr(0, pos), pos - length);
    if (c.length == length && (length > 1 || c.code_point != 0xFFFD)) return c;
  }
  return {kReplacementCharacter, 1, false};
}

size_t CountCodePoints(std::string_view text) {
  size_t count = 0;
  for (size_t pos = 0; pos < text.size(); pos += DecodeAt(text, pos).length) ++count;
  return count;
}

size_t OffsetOf(std::string_view text, size_t index) {
  size_t pos = 0;
  for (; index > 0 && pos < text.size(); --index) pos += DecodeAt(text, pos).length;
  return pos;
}

bool IsSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool IsLineBreak(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool IsPrintable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  constexpr uint32_t kHidden = U_GC_C_MASK | U_GC_Z_MASK;
  return (U_MASK(u_charType(static_cast<UChar32>(c))) & kHidden) == 0;
}

bool IsCased(char32_t c) { return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_CASED) != 0; }
bool IsUpper(char32_t c) {
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_UPPERCASE) != 0;
}
bool IsLower(char32_t c) {
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_LOWERCASE) != 0;
}

bool IsAlpha(char32_t c) {
  return (U_MASK(u_charType(static_cast<UChar32>(c))) & U_GC_L_MASK) != 0;
}

bool IsDecimal(char32_t c) { return u_charType(static_cast<UChar32>(c)) == U_DECIMAL_DIGIT_NUMBER; }

bool IsDigit(char32_t c) {
  const int type = u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_NUMERIC_TYPE);
  return type == U_NT_DECIMAL || type == U_NT_DIGIT;
}

bool IsNumeric(char32_t c) {
  return u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_NUMERIC_TYPE) != U_NT_NONE;
}

std::string ToUpper(std::string_view text) {
  return MapCase(text, ucasemap_utf8ToUpper, 'a', 'z', -32);
}
std::string ToLower(std::string_view text) {
  return MapCase(text, ucasemap_utf8ToLower, 'A', 'Z', 32);
}
char32_t ToTitle(char32_t c) { return static_cast<char32_t>(u_totitle(static_cast<UChar32>(c))); }

Span Strip(std::string_view text, bool left, bool right, const std::u32string* chars) {
  const auto strips = [chars](char32_t c) {
    return chars == nullptr ? IsSpace(c) : chars->find(c) != std::u32string::npos;
  };
  Span span{0, text.size()};
  while (left && span.begin < span.end) {
    const CodePoint c = DecodeAt(text, span.begin);
    if (!strips(c.code_point)) break;
    span.begin += c.length;
  }
  while (right && span.end > span.begin) {
    const CodePoint c = DecodeBefore(text, span.end);
    if (!strips(c.code_point)) break;
    span.end -= c.length;
  }
  return span;
}

std::u32string Decode(std::string_view text) {
  std::u32string decoded;
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint c = DecodeAt(text, pos);
    decoded.push_back(c.code_point);
    pos += c.length;
  }
  return decoded;
}

size_t Find(std::string_view haystack, std::string_view needle, size_t from) {
  if (from > haystack.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  const void* found =
      ::memmem(haystack.data() + from, haystack.size() - from, needle.data(), needle.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - haystack.data());
}

}  // namespace tutti::tokenizer::jinja
