#include "base/quote.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/utf8.h"

namespace tutti {

namespace {

// `quoted`: `bytes` will be put between double quotes.
std::string Escape(std::string_view bytes, bool quoted) {
  std::string out;
  while (!bytes.empty()) {
    const CodePoint next = DecodeAt(bytes, 0);
    const std::string_view character = bytes.substr(0, next.length);
    // C1 controls (U+0080..U+009F) would reach a terminal as control codes.
    const bool control =
        next.code_point < 0x20 || (next.code_point >= 0x7F && next.code_point < 0xA0);
    if (quoted && (next.code_point == '"' || next.code_point == '\\')) {
      out += '\\';
      out += character;
    } else if (next.code_point == '\n') {
      out += "\\n";
    } else if (!next.valid || control) {
      for (const char byte : character) out += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
    } else {
      out += character;
    }
    bytes.remove_prefix(next.length);
  }
  return out;
}

}  // namespace

std::string Quote(std::string_view bytes, size_t max_bytes) {
  const bool cut = bytes.size() > max_bytes;
  return '"' + Escape(cut ? bytes.substr(0, max_bytes) : bytes, true) + (cut ? "\"..." : "\"");
}

std::string Printable(std::string_view bytes) { return Escape(bytes, false); }

}  // namespace tutti
