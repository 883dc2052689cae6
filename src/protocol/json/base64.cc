#include "protocol/json/base64.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace tutti::protocol {
namespace {

constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char Digit(uint32_t bits, int shift) { return kAlphabet[(bits >> shift) & 63]; }

}  // namespace

void AppendBase64(std::string_view bytes, std::string* out) {
  const auto at = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])); };
  size_t to = out->size();
  out->resize(to + (bytes.size() + 2) / 3 * 4, '=');
  char* const text = out->data();
  size_t i = 0;
  for (; i + 3 <= bytes.size(); i += 3, to += 4) {
    const uint32_t bits = at(i) << 16 | at(i + 1) << 8 | at(i + 2);
    text[to] = Digit(bits, 18);
    text[to + 1] = Digit(bits, 12);
    text[to + 2] = Digit(bits, 6);
    text[to + 3] = Digit(bits, 0);
  }
  if (i == bytes.size()) return;
  const bool two = i + 2 == bytes.size();
  const uint32_t bits = at(i) << 16 | (two ? at(i + 1) << 8 : 0);
  text[to] = Digit(bits, 18);
  text[to + 1] = Digit(bits, 12);
  if (two) text[to + 2] = Digit(bits, 6);
}

void AppendBase64Floats(std::span<const float> numbers, std::string* out) {
  std::array<char, 4 * 384> block;  // whole groups of three bytes, so that blocks join
  while (!numbers.empty()) {
    const auto some = numbers.first(std::min(numbers.size(), block.size() / 4));
    size_t size = 0;
    for (const float number : some) {
      const auto bits = std::bit_cast<uint32_t>(number);
      for (int shift = 0; shift < 32; shift += 8) block[size++] = static_cast<char>(bits >> shift);
    }
    AppendBase64({block.data(), size}, out);
    numbers = numbers.subspan(some.size());
  }
}

}  // namespace tutti::protocol
