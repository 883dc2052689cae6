#include "tokenizer/bert_text.h"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>

#include <array>
#include <cstdint>

#include "base/check.h"
#include "tokenizer/unicode_class.h"

namespace tutti::tokenizer {
namespace {

UChar32 IcuCharacter(char32_t c) { return static_cast<UChar32>(c); }

bool IsNonspacingMark(char32_t c) {
  if (c == 0x1734) return true;  // Mn until Unicode 13
  if (c == 0x1885 || c == 0x1886 || c == 0xA9BD || c == 0x111C9) return false;  // Mn only later
  return HasCategoryInUnicode8(c, U_GC_MN_MASK);
}

// The one character whose decomposition is younger than the reference's tables.
constexpr char32_t kDecomposesSinceUnicode13 = 0x11938;

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

}  // namespace

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

bool IsBertAccent(char32_t c) { return IsNonspacingMark(c); }

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
    if (!IsNonspacingMark(part)) append(part);
  };
  // A character decomposes into at most 4 code points; one that does not decompose gives a negative
  // length.
  std::array<UChar, 16> units{};
  UErrorCode error = U_ZERO_ERROR;
  const int32_t length = unorm2_getDecomposition(Nfd(), IcuCharacter(c), units.data(),
                                                 static_cast<int32_t>(units.size()), &error);
  if (length < 0 || U_FAILURE(error) != 0 || c == kDecomposesSinceUnicode13) {
    keep(c);
    return;
  }
  for (int32_t i = 0; i < length;) {
    UChar32 part = 0;
    U16_NEXT(units.data(), i, length, part);
    keep(static_cast<char32_t>(part));
  }
}

}  // namespace tutti::tokenizer
