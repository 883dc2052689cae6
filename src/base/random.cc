#include "base/random.h"

#include <sys/random.h>

#include <array>
#include <cstdint>

#include "base/ascii.h"
#include "base/check.h"

namespace tutti {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
constexpr int kRounds = 10;

double ToUnit(uint32_t high, uint32_t low) {
  const uint64_t bits = (static_cast<uint64_t>(high) << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1.0p-53;
}

template <size_t n>
std::array<unsigned char, n> RandomBytes() {
  std::array<unsigned char, n> bytes;
  // Up to 256 bytes are given whole or not at all.
  CHECK(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return bytes;
}

}  // namespace

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(kMultiplier0) * counter[0];
    const uint64_t p1 = static_cast<uint64_t>(kMultiplier1) * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

double UniformAt(uint64_t seed, uint32_t sequence, uint64_t position, uint32_t draw) {
  const auto block = Philox4x32(
      {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), sequence, draw},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return ToUnit(block[0], block[1]);
}

uint64_t Random::Next() {
  const auto block =
      Philox4x32({static_cast<uint32_t>(counter_), static_cast<uint32_t>(counter_ >> 32), 0, 0},
                 {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
  ++counter_;
  return static_cast<uint64_t>(block[0]) << 32 | block[1];
}

double Random::Uniform() {
  const uint64_t bits = Next();
  return ToUnit(static_cast<uint32_t>(bits >> 32), static_cast<uint32_t>(bits));
}

uint64_t Random::Below(uint64_t bound) {
  CHECK_GT(bound, 0u);
  // Multiply-shift; its bias, below bound / 2^64, does not matter for tests and workloads.
  return static_cast<uint64_t>((static_cast<__uint128_t>(Next()) * bound) >> 64);
}

int64_t Random::Between(int64_t low, int64_t high) {
  CHECK_LE(low, high);
  return low + static_cast<int64_t>(Below(static_cast<uint64_t>(high - low) + 1));
}

std::string NewId(std::string_view prefix) {
  return std::string(prefix) + ToHex(RandomBytes<16>());
}

uint64_t RandomBits() {
  uint64_t bits = 0;
  for (const unsigned char byte : RandomBytes<8>()) bits = bits << 8 | byte;
  return bits;
}

int64_t NewSeed() { return static_cast<int64_t>(RandomBits() >> 1); }

}  // namespace tutti
