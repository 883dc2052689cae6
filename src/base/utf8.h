// UTF-8 by the rules of Unicode's table 3-7 (no overlong forms, no surrogates, nothing above
// U+10FFFF).
//
// Pure functions and one small value type; any bytes are legal input. Source: The Unicode Standard
// 15, sections 3.9 (well-formed sequences; substitution of maximal subparts).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;
inline constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";

// One step over a text. An invalid byte has length 1, valid = false and code_point U+FFFD.
struct CodePoint {
  char32_t code_point;
  uint8_t length;  // bytes, 1 to 4
  bool valid;
};

CodePoint DecodeMultibyte(std::string_view text, size_t position);

// Needs position < text.size().
inline CodePoint DecodeAt(std::string_view text, size_t position) {
  const auto byte = static_cast<unsigned char>(text[position]);
  if (byte < 0x80) return {byte, 1, true};
  return DecodeMultibyte(text, position);
}

// Length of the well-formed prefix: text.size() when all of it is well-formed. Linear; ASCII eight
// bytes at a time.
size_t ValidUtf8Prefix(std::string_view text);
inline bool IsValidUtf8(std::string_view text) { return ValidUtf8Prefix(text) == text.size(); }

// Needs a scalar value (not a surrogate, at most U+10FFFF).
void AppendUtf8(char32_t code_point, std::string& out);

// Bytes in, valid UTF-8 out, in pieces: an unfinished character waits, an impossible one becomes
// U+FFFD (one for each maximal subpart, however the bytes were cut). A value; not for two threads
// at once.
class Utf8Repair {
 public:
  void Push(std::string_view bytes, std::string& out);
  void Finish(std::string& out);  // an unfinished character becomes U+FFFD
  bool pending() const { return held_ > 0; }

 private:
  char hold_[4] = {};
  uint8_t held_ = 0;  // bytes of hold_ that begin a character, at most 3
};

}  // namespace tutti
