#include "tokenizer/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "base/utf8.h"

namespace tutti::tokenizer {
namespace {

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
