#include "tokenizer/unicode_class.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <iterator>

namespace tutti::tokenizer {
namespace {

struct ClassRange {
  char32_t first;
  char32_t last;
  uint8_t classes;
};

// Assigned after Unicode 15, which is where Debian 12's ICU stands: letters, numbers and
// punctuation of Unicode 15.1 and 16, and the numbers of 17, which is what the reference
// implementations know.
constexpr ClassRange kSinceUnicode15[] = {
    {0x01B4E, 0x01B4F, kPunctuation}, {0x01B7F, 0x01B7F, kPunctuation},
    {0x01C89, 0x01C8A, kLetter},      {0x0A7CB, 0x0A7CD, kLetter},
    {0x0A7DA, 0x0A7DC, kLetter},      {0x105C0, 0x105F3, kLetter},
    {0x10D40, 0x10D49, kNumber},      {0x10D4A, 0x10D65, kLetter},
    {0x10D6E, 0x10D6E, kPunctuation}, {0x10D6F, 0x10D85, kLetter},
    {0x10EC2, 0x10EC4, kLetter},      {0x11380, 0x11389, kLetter},
    {0x1138B, 0x1138B, kLetter},      {0x1138E, 0x1138E, kLetter},
    {0x11390, 0x113B5, kLetter},      {0x113B7, 0x113B7, kLetter},
    {0x113D1, 0x113D1, kLetter},      {0x113D3, 0x113D3, kLetter},
    {0x113D4, 0x113D5, kPunctuation}, {0x113D7, 0x113D8, kPunctuation},
    {0x116D0, 0x116E3, kNumber},      {0x11BC0, 0x11BE0, kLetter},
    {0x11BE1, 0x11BE1, kPunctuation}, {0x11BF0, 0x11BF9, kNumber},
    {0x11DE0, 0x11DE9, kNumber},      {0x13460, 0x143FA, kLetter},
    {0x16100, 0x1611D, kLetter},      {0x16130, 0x16139, kNumber},
    {0x16D40, 0x16D6C, kLetter},      {0x16D6D, 0x16D6F, kPunctuation},
    {0x16D70, 0x16D79, kNumber},      {0x16FF4, 0x16FF6, kNumber},
    {0x18CFF, 0x18CFF, kLetter},      {0x1CCF0, 0x1CCF9, kNumber},
    {0x1E5D0, 0x1E5ED, kLetter},      {0x1E5F0, 0x1E5F0, kLetter},
    {0x1E5F1, 0x1E5FA, kNumber},      {0x1E5FF, 0x1E5FF, kPunctuation},
    {0x2EBF0, 0x2EE5D, kLetter},
};

uint8_t ClassOfUnassigned(char32_t c) {
  const auto* range = std::partition_point(std::begin(kSinceUnicode15), std::end(kSinceUnicode15),
                                           [c](const ClassRange& r) { return r.last < c; });
  return range != std::end(kSinceUnicode15) && c >= range->first ? range->classes : uint8_t{0};
}

}  // namespace

uint8_t ClassOfWide(char32_t code_point) {
  if (code_point < 0x80) return internal::kAsciiClasses[code_point];
  const auto c = static_cast<UChar32>(code_point);
  const uint32_t category = U_GET_GC_MASK(c);
  if ((category & U_GC_L_MASK) != 0) return kLetter;
  if ((category & U_GC_N_MASK) != 0) return kNumber;
  if ((category & U_GC_P_MASK) != 0) return kPunctuation;
  if ((category & U_GC_CN_MASK) != 0) return ClassOfUnassigned(code_point);
  return u_isUWhiteSpace(c) != 0 ? static_cast<uint8_t>(kSpace) : uint8_t{0};
}

bool IsWordCharacter(char32_t code_point) {
  const auto c = static_cast<UChar32>(code_point);
  return u_hasBinaryProperty(c, UCHAR_ALPHABETIC) != 0 ||
         (U_GET_GC_MASK(c) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0 ||
         u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL) != 0 ||
         (ClassOfWide(code_point) & kLetter) != 0;
}

bool HasCategoryInUnicode8(char32_t code_point, uint32_t category_mask) {
  const auto c = static_cast<UChar32>(code_point);
  if ((U_GET_GC_MASK(c) & category_mask) == 0) return false;
  UVersionInfo age;
  u_charAge(c, age);
  return age[0] > 0 && age[0] <= 8;
}

bool IsPunctuationInUnicode8(char32_t code_point) {
  // Canadian syllabics full stop and Sharada sandhi mark have changed their category since.
  return code_point == 0x166D || code_point == 0x111C9 ||
         HasCategoryInUnicode8(code_point, U_GC_P_MASK);
}

size_t LastCharacter(std::string_view text, size_t from, size_t end) {
  size_t at = end - 1;
  while (at > from && end - at < 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

size_t EndOfSpace(std::string_view text, size_t at) {
  while (at < text.size()) {
    const Symbol symbol = SymbolAt(text, at);
    if (!symbol.Is(kSpace)) break;
    at += symbol.length;
  }
  return at;
}

size_t BeginOfSpace(std::string_view text, size_t from, size_t end) {
  while (end > from) {
    const size_t at = LastCharacter(text, from, end);
    const Symbol symbol = SymbolAt(text, at);
    if (at + symbol.length != end || !symbol.Is(kSpace)) break;
    end = at;
  }
  return end;
}

}  // namespace tutti::tokenizer
