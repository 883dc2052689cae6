#include "wire/utf8.h"

#include <cstdint>
#include <cstring>

namespace tutti::wire {
namespace {

// Length of the well-formed character at `p`, 0 when there is none.
size_t CharacterAt(const unsigned char* p, const unsigned char* end) {
  const unsigned char lead = *p;
  if (lead < 0x80) return 1;
  size_t length = 0;
  unsigned char low = 0x80, high = 0xBF;  // of the second byte
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if ((lead & 0xF0) == 0xE0) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;   // overlong
    if (lead == 0xED) high = 0x9F;  // surrogates
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;   // overlong
    if (lead == 0xF4) high = 0x8F;  // above U+10FFFF
  }
  if (length == 0 || static_cast<size_t>(end - p) < length) return 0;
  if (p[1] < low || p[1] > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((p[i] & 0xC0) != 0x80) return 0;
  }
  return length;
}

constexpr size_t kExcerptBytes = 64;

}  // namespace

size_t ValidUtf8Prefix(std::string_view text) {
  const auto* const begin = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = begin + text.size();
  const unsigned char* p = begin;
  while (p < end) {
    if (end - p >= 8) {  // eight ASCII bytes at a time
      uint64_t word = 0;
      std::memcpy(&word, p, sizeof word);
      if ((word & 0x8080808080808080u) == 0) {
        p += 8;
        continue;
      }
    }
    const size_t length = CharacterAt(p, end);
    if (length == 0) break;
    p += length;
  }
  return static_cast<size_t>(p - begin);
}

std::string Excerpt(std::string_view input) {
  const bool cut = input.size() > kExcerptBytes;
  const size_t limit = cut ? kExcerptBytes - 3 : input.size();
  const auto* p = reinterpret_cast<const unsigned char*>(input.data());
  const auto* const end = p + input.size();
  std::string out;
  while (p < end && out.size() < limit) {
    const size_t length = CharacterAt(p, end);
    const bool control = *p < 0x20 || *p == 0x7F || (length == 2 && *p == 0xC2 && p[1] < 0xA0);
    if (length == 0 || control) {
      out += '?';
    } else if (out.size() + length <= limit) {
      out.append(reinterpret_cast<const char*>(p), length);
    } else {
      break;
    }
    p += length == 0 ? 1 : length;
  }
  if (cut) out += "...";
  return out;
}

size_t CountCharacters(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

}  // namespace tutti::wire
