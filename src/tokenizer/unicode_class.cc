#include "tokenizer/unicode_class.h"

#include <unicode/uchar.h>

namespace tutti::tokenizer {

uint8_t ClassOfWide(char32_t code_point) {
  if (code_point < 0x80) return internal::kAsciiClasses[code_point];
  const auto c = static_cast<UChar32>(code_point);
  const uint32_t category = U_GET_GC_MASK(c);
  if ((category & U_GC_L_MASK) != 0) return kLetter;
  if ((category & U_GC_N_MASK) != 0) return kNumber;
  if ((category & U_GC_P_MASK) != 0) return kPunctuation;
  return u_isUWhiteSpace(c) != 0 ? static_cast<uint8_t>(kSpace) : uint8_t{0};
}

}  // namespace tutti::tokenizer
