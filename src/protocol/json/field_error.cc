#include "protocol/json/field_error.h"

namespace tutti::protocol {

std::string Excerpt(std::string_view input) {
  constexpr size_t kExcerptBytes = 64;
  const bool cut = input.size() > kExcerptBytes;
  const size_t limit = cut ? kExcerptBytes - 3 : input.size();
  std::string out;
  for (size_t i = 0; i < input.size() && out.size() < limit;) {
    const CodePoint next = DecodeAt(input, i);
    const bool control =
        next.code_point < 0x20 || (next.code_point >= 0x7F && next.code_point < 0xA0);
    if (!next.valid || control) {
      out += '?';
    } else if (out.size() + next.length <= limit) {
      out.append(input, i, next.length);
    } else {
      break;
    }
    i += next.length;
  }
  if (cut) out += "...";
  return out;
}

size_t CountCharacters(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

}  // namespace tutti::protocol
