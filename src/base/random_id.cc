#include "base/random_id.h"

#include <sys/random.h>

#include <array>
#include <cstdint>

#include "base/check.h"

namespace tutti {
namespace {

template <size_t n>
std::array<unsigned char, n> RandomBytes() {
  std::array<unsigned char, n> bytes;
  // Up to 256 bytes are given whole or not at all.
  CHECK(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return bytes;
}

}  // namespace

std::string NewId(std::string_view prefix) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string id(prefix);
  for (const unsigned char byte : RandomBytes<16>()) {
    id += kDigits[byte >> 4];
    id += kDigits[byte & 15];
  }
  return id;
}

uint64_t RandomBits() {
  uint64_t bits = 0;
  for (const unsigned char byte : RandomBytes<8>()) bits = bits << 8 | byte;
  return bits;
}

int64_t NewSeed() { return static_cast<int64_t>(RandomBits() >> 1); }

}  // namespace tutti
