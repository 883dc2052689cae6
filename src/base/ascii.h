// Functions for ASCII text. Letters are compared as protocols do it: case is folded for A-Z and a-z
// only, and the locale has no effect. Pure.
#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace tutti {

constexpr char AsciiLower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

inline std::string AsciiLower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = AsciiLower(c);
  return out;
}

// The value of a hexadecimal digit, or -1.
constexpr int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = AsciiLower(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Two hexadecimal digits, in lower case, for each byte.
inline std::string ToHex(std::span<const unsigned char> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const unsigned char byte : bytes) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}
inline std::string ToHex(std::string_view bytes) {
  return ToHex(std::span(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

// The number that all of `text` spells; nothing if there are other characters, or if T cannot hold
// it. As std::from_chars reads it: no '+', no spaces, '-' only for a signed T. `format`: the base
// of a whole number; 10 by default.
template <typename T, typename... Format>
std::optional<T> ParseNumber(std::string_view text, Format... format) {
  T number{};
  const char* const end = text.data() + text.size();
  const std::from_chars_result read = std::from_chars(text.data(), end, number, format...);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

// Without the spaces and tabs around it (OWS of RFC 9110, section 5.6.3).
constexpr std::string_view Trimmed(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

// True if `text` equals `lower`, which has no capitals, except for case.
inline bool SameLetters(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                    [](char a, char b) { return AsciiLower(a) == b; });
}

// "a|b" at '|' -> {"a", "b"}; "" has no part, and a separator at the end begins none.
inline std::vector<std::string_view> SplitAt(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

}  // namespace tutti
