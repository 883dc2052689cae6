#include "kv/siphash.h"

#include <cstddef>

namespace tutti::kv {
namespace {

uint64_t Rotate(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

struct State {
  uint64_t v0, v1, v2, v3;
  void Round() {
    v0 += v1, v1 = Rotate(v1, 13), v1 ^= v0, v0 = Rotate(v0, 32);
    v2 += v3, v3 = Rotate(v3, 16), v3 ^= v2;
    v0 += v3, v3 = Rotate(v3, 21), v3 ^= v0;
    v2 += v1, v1 = Rotate(v1, 17), v1 ^= v2, v2 = Rotate(v2, 32);
  }
  uint64_t Fold() {
    for (int i = 0; i < 4; ++i) Round();
    return v0 ^ v1 ^ v2 ^ v3;
  }
};

uint64_t LittleEndian(const uint8_t* bytes, size_t count) {
  uint64_t word = 0;
  for (size_t i = 0; i < count; ++i) word |= uint64_t{bytes[i]} << (8 * i);
  return word;
}

}  // namespace

Hash128 SipHash128(const Hash128& key, std::span<const uint8_t> data) {
  State s{key[0] ^ 0x736f6d6570736575ULL, key[1] ^ 0x646f72616e646f6dULL ^ 0xee,
          key[0] ^ 0x6c7967656e657261ULL, key[1] ^ 0x7465646279746573ULL};
  const size_t whole = data.size() & ~size_t{7};
  for (size_t i = 0; i < whole; i += 8) {
    const uint64_t word = LittleEndian(data.data() + i, 8);
    s.v3 ^= word;
    s.Round(), s.Round();
    s.v0 ^= word;
  }
  const uint64_t last =
      LittleEndian(data.data() + whole, data.size() - whole) | (uint64_t{data.size()} << 56);
  s.v3 ^= last;
  s.Round(), s.Round();
  s.v0 ^= last;

  Hash128 hash;
  s.v2 ^= 0xee;
  hash[0] = s.Fold();
  s.v1 ^= 0xdd;
  hash[1] = s.Fold();
  return hash;
}

}  // namespace tutti::kv
