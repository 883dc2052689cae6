#include "tokenizer/character_rules.h"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

#include "base/check.h"
#include "base/utf8.h"

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

UChar32 IcuCharacter(char32_t c) { return static_cast<UChar32>(c); }

// `category_mask` is of ICU's U_GC_*_MASK.
bool HasCategoryInUnicode8(char32_t code_point, uint32_t category_mask) {
  const UChar32 c = IcuCharacter(code_point);
  if ((U_GET_GC_MASK(c) & category_mask) == 0) return false;
  UVersionInfo age;
  u_charAge(c, age);
  return age[0] > 0 && age[0] <= 8;
}

// Characters of Unicode 13 and later decompose in ICU's tables, and not in the reference's. None
// that came with 10 to 12 does.
bool IsSinceUnicode13(char32_t c) {
  UVersionInfo age;
  u_charAge(IcuCharacter(c), age);
  return age[0] >= 13;
}

const UNormalizer2* Nfd() {
  UErrorCode error = U_ZERO_ERROR;
  const UNormalizer2* nfd = unorm2_getNFDInstance(&error);
  CHECK(U_SUCCESS(error) != 0) << "ICU has no normalisation data";
  return nfd;
}

// Capitals of Unicode 15.1 to 17, which the reference's case tables have and ICU 72 does not.
struct CaseRange {
  char32_t first;
  char32_t last;
  char32_t lower;  // of `first`; the others follow in order
};
constexpr CaseRange kNewCapitals[] = {
    {0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x0264}, {0xA7CC, 0xA7CC, 0xA7CD},
    {0xA7CE, 0xA7CE, 0xA7CF},    {0xA7D2, 0xA7D2, 0xA7D3}, {0xA7D4, 0xA7D4, 0xA7D5},
    {0xA7DA, 0xA7DA, 0xA7DB},    {0xA7DC, 0xA7DC, 0x019B}, {0x10D50, 0x10D65, 0x10D70},
    {0x16EA0, 0x16EB8, 0x16EBB},
};

constexpr bool IsOwnSymbol(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<char32_t, 256> symbol{};
  std::array<int16_t, 0x144> byte{};  // by code point; -1: stands for no byte
};

// Bytes that print stand for themselves; the others take U+0100 onwards in their order.
constexpr Alphabet MakeAlphabet() {
  Alphabet a;
  for (auto& b : a.byte) b = -1;
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t symbol = IsOwnSymbol(byte) ? static_cast<char32_t>(byte) : next++;
    a.symbol[static_cast<size_t>(byte)] = symbol;
    a.byte[symbol] = static_cast<int16_t>(byte);
  }
  return a;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

uint8_t ClassOfWide(char32_t code_point) {
  if (code_point < 0x80) return internal::kAsciiClasses[code_point];
  const auto c = IcuCharacter(code_point);
  const uint32_t category = U_GET_GC_MASK(c);
  if ((category & U_GC_L_MASK) != 0) return kLetter;
  if ((category & U_GC_N_MASK) != 0) return kNumber;
  if ((category & U_GC_P_MASK) != 0) return kPunctuation;
  if ((category & U_GC_CN_MASK) != 0) return ClassOfUnassigned(code_point);
  return u_isUWhiteSpace(c) != 0 ? static_cast<uint8_t>(kSpace) : uint8_t{0};
}

bool IsWordCharacter(char32_t code_point) {
  const auto c = IcuCharacter(code_point);
  return u_hasBinaryProperty(c, UCHAR_ALPHABETIC) != 0 ||
         (U_GET_GC_MASK(c) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0 ||
         u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL) != 0 ||
         (ClassOfWide(code_point) & kLetter) != 0;
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

void AppendLowercase(char32_t c, std::u32string& out) {
  if (c == 0x130) {
    out.append(U"i\u0307");
    return;
  }
  for (const CaseRange& range : kNewCapitals) {
    if (c >= range.first && c <= range.last) {
      out.push_back(range.lower + (c - range.first));
      return;
    }
  }
  out.push_back(static_cast<char32_t>(u_tolower(IcuCharacter(c))));
}

bool IsBertAccent(char32_t c) {
  if (c == 0x1734 || c == 0x1171E) return true;  // Mn until Unicode 13, and 15
  if (c == 0x1885 || c == 0x1886 || c == 0xA9BD || c == 0x111C9) return false;  // Mn only later
  return HasCategoryInUnicode8(c, U_GC_MN_MASK);
}

bool IsBertRemoved(char32_t c) {
  if (c < 0x80) return c < 0x20 ? c != '\t' && c != '\n' && c != '\r' : c == 0x7F;
  return c == 0xFFFD || HasCategoryInUnicode8(c, U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK);
}

bool IsBertSpace(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D);
  return u_isUWhiteSpace(IcuCharacter(c)) != 0;
}

bool IsBertIdeograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

bool IsBertPunctuation(char32_t c) {
  if (c < 0x80) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
  }
  return IsPunctuationInUnicode8(c);
}

void AppendBertFolded(char32_t c, bool strip_accents, bool lowercase, std::u32string& out) {
  if (c < 0x80) {
    out.push_back(lowercase && c >= 'A' && c <= 'Z' ? c + 32 : c);
    return;
  }
  const auto append = [&](char32_t part) {
    if (lowercase) {
      AppendLowercase(part, out);
    } else {
      out.push_back(part);
    }
  };
  if (!strip_accents) {
    append(c);
    return;
  }
  const auto keep = [&](char32_t part) {
    if (!IsBertAccent(part)) append(part);
  };
  // A character decomposes into at most 4 code points; one that does not decompose gives a negative
  // length.
  std::array<UChar, 16> units{};
  UErrorCode error = U_ZERO_ERROR;
  const int32_t length = unorm2_getDecomposition(Nfd(), IcuCharacter(c), units.data(),
                                                 static_cast<int32_t>(units.size()), &error);
  if (length < 0 || U_FAILURE(error) != 0 || IsSinceUnicode13(c)) {
    keep(c);
    return;
  }
  for (int32_t i = 0; i < length;) {
    UChar32 part = 0;
    U16_NEXT(units.data(), i, length, part);
    keep(static_cast<char32_t>(part));
  }
}

char32_t ByteSymbol(unsigned char byte) { return kAlphabet.symbol[byte]; }

std::optional<std::string> BytesOfSpelling(std::string_view spelling) {
  std::string bytes;
  bytes.reserve(spelling.size());
  for (size_t i = 0; i < spelling.size();) {
    const CodePoint c = DecodeAt(spelling, i);
    if (!c.valid || c.code_point >= kAlphabet.byte.size()) return std::nullopt;
    const int16_t byte = kAlphabet.byte[c.code_point];
    if (byte < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
    i += c.length;
  }
  return bytes;
}

}  // namespace tutti::tokenizer
