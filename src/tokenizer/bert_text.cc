#include "tokenizer/bert_text.h"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>

#include <array>
#include <cstdint>

#include "base/check.h"

namespace tutti::tokenizer {
namespace {

UChar32 Icu(char32_t c) { return static_cast<UChar32>(c); }
uint32_t CategoryMask(char32_t c) { return U_GET_GC_MASK(Icu(c)); }

const UNormalizer2* Nfd() {
  UErrorCode error = U_ZERO_ERROR;
  const UNormalizer2* nfd = unorm2_getNFDInstance(&error);
  CHECK(U_SUCCESS(error) != 0) << "ICU has no normalisation data";
  return nfd;
}

// Full, unconditional lower case: simple mappings, and the one that takes two characters.
void AppendLower(char32_t c, std::u32string& out) {
  if (c == 0x130) {
    out.append(U"i\u0307");
  } else {
    out.push_back(static_cast<char32_t>(u_tolower(Icu(c))));
  }
}

}  // namespace

bool IsBertRemoved(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  return c == 0 || c == 0xFFFD || (CategoryMask(c) & U_GC_C_MASK) != 0;
}

bool IsBertSpace(char32_t c) { return u_isUWhiteSpace(Icu(c)) != 0; }

bool IsBertIdeograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

bool IsBertPunctuation(char32_t c) {
  if (c < 0x80) return c > 0x20 && c < 0x7F && u_isalnum(Icu(c)) == 0;
  return (CategoryMask(c) & U_GC_P_MASK) != 0;
}

void AppendBertFolded(char32_t c, bool strip_accents, bool lowercase, std::u32string& out) {
  if (c < 0x80) {
    out.push_back(lowercase && c >= 'A' && c <= 'Z' ? c + 32 : c);
    return;
  }
  const auto append = [&](char32_t part) {
    if (lowercase) {
      AppendLower(part, out);
    } else {
      out.push_back(part);
    }
  };
  if (!strip_accents) {
    append(c);
    return;
  }
  // A character decomposes into at most 4 code points; one that does not decompose gives a negative length.
  std::array<UChar, 16> units{};
  UErrorCode error = U_ZERO_ERROR;
  const int32_t length =
      unorm2_getDecomposition(Nfd(), Icu(c), units.data(), static_cast<int32_t>(units.size()), &error);
  const auto keep = [&](char32_t part) {
    if ((CategoryMask(part) & U_GC_MN_MASK) == 0) append(part);
  };
  if (length < 0 || U_FAILURE(error) != 0) {
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
