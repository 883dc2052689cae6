#include "tokenizer/grapheme.h"

#include <unicode/uchar.h>

#include "base/utf8.h"

namespace tutti::tokenizer {
namespace {

int BreakClass(char32_t c) {
  return u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_GRAPHEME_CLUSTER_BREAK);
}

bool IsControl(int c) { return c == U_GCB_CONTROL || c == U_GCB_CR || c == U_GCB_LF; }

// Whether characters of these classes stay together.
bool Joins(int left, int right) {
  if (left == U_GCB_CR && right == U_GCB_LF) return true;        // GB3
  if (IsControl(left) || IsControl(right)) return false;         // GB4, GB5
  if (right == U_GCB_EXTEND || right == U_GCB_ZWJ) return true;  // GB9
  if (right == U_GCB_SPACING_MARK) return true;                  // GB9a
  if (left == U_GCB_PREPEND) return true;                        // GB9b
  switch (left) {                                                // GB6 to GB8: Hangul syllables
    case U_GCB_L:
      return right == U_GCB_L || right == U_GCB_V || right == U_GCB_LV || right == U_GCB_LVT;
    case U_GCB_LV:
    case U_GCB_V:
      return right == U_GCB_V || right == U_GCB_T;
    case U_GCB_LVT:
    case U_GCB_T:
      return right == U_GCB_T;
    default:
      return false;
  }
}

}  // namespace

size_t GraphemeEnd(std::string_view text, size_t at) {
  const CodePoint first = DecodeAt(text, at);
  size_t end = at + first.length;
  if (!first.valid) return end;
  // Two ASCII characters stay together only as CR LF.
  if (end < text.size() && first.code_point < 0x80 && first.code_point != '\r' &&
      static_cast<unsigned char>(text[end]) < 0x80)
    return end;
  int left = BreakClass(first.code_point);
  while (end < text.size()) {
    const CodePoint next = DecodeAt(text, end);
    if (!next.valid) return end;
    const int right = BreakClass(next.code_point);
    if (!Joins(left, right)) return end;
    end += next.length;
    left = right;
  }
  return end;
}

}  // namespace tutti::tokenizer
