// The tiles of AMX over a tile unit in plain C++, for gemm_test.cc: every machine runs them.
#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/scalar/gemm_vec.h"
#include "kernels/cpu/unroll.h"
#include "kernels/gemm.h"
#include "kernels/isa.h"
#include "kernels/testing/tile_unit_emulated.h"
#include "tensor/blocks.h"

namespace tutti::kernels {
namespace amx_emulated {
namespace {

struct Words {
  uint16_t lane[32];
};

template <typename Operation>
Words ForEach(const Operation& operation) {
  Words out;
  for (int i = 0; i < 32; ++i) out.lane[i] = static_cast<uint16_t>(operation(i));
  return out;
}
Words LoadWords(const uint8_t* from) {
  Words out;
  std::memcpy(&out, from, sizeof out);
  return out;
}
void StoreWords(uint8_t* to, Words x) { std::memcpy(to, &x, sizeof x); }
Words SetWords(uint16_t x) {
  return ForEach([&](int) { return x; });
}
Words LoadTwice(const uint8_t* from) {
  uint16_t words[16];
  std::memcpy(words, from, sizeof words);
  return ForEach([&](int i) { return words[i / 2]; });
}
Words And(Words a, Words b) {
  return ForEach([&](int i) { return a.lane[i] & b.lane[i]; });
}
Words Or(Words a, Words b) {
  return ForEach([&](int i) { return a.lane[i] | b.lane[i]; });
}
template <int kBits>
Words Right(Words x) {
  return ForEach([&](int i) { return x.lane[i] >> kBits; });
}
template <int kBits>
Words Left(Words x) {
  return ForEach([&](int i) { return x.lane[i] << kBits; });
}
Words AddSixteen(Words bytes, const uint8_t* mask) {
  uint8_t all[64];
  std::memcpy(all, &bytes, sizeof all);
  for (int i = 0; i < 64; ++i) {
    if ((mask[i / 8] >> (i % 8) & 1) != 0) all[i] = static_cast<uint8_t>(all[i] + 16);
  }
  return LoadWords(all);
}
Words SwapMiddle(Words bytes) {
  uint8_t all[64];
  std::memcpy(all, &bytes, sizeof all);
  for (int i = 0; i < 64; i += 4) std::swap(all[i + 1], all[i + 2]);
  return LoadWords(all);
}
uint16_t Half(double x) { return tensor::DoubleToHalf(x); }
Words FourBits(Words x) {
  return ForEach([&](int i) { return Half(x.lane[i] & 15); });
}
Words E2M1Bits(Words x) {
  return ForEach([&](int i) { return Half(kE2M1Codes[x.lane[i] & 15]); });
}
Words FiveBits(Words x) {
  return ForEach([&](int i) { return Half(x.lane[i] & 31); });
}
Words WholeWords(Words x) {
  return ForEach([&](int i) { return Half(x.lane[i]); });
}
double FromHalf(uint16_t x) { return tensor::HalfToFloat(x); }
Words MulHalves(Words a, Words b) {
  return ForEach([&](int i) { return Half(FromHalf(a.lane[i]) * FromHalf(b.lane[i])); });
}
Words LimitHalves(Words x, uint16_t limit) {
  return ForEach([&](int i) {
    const double most = FromHalf(limit);
    return Half(std::clamp(FromHalf(x.lane[i]), -most, most));
  });
}
Words FmaHalves(Words a, Words b, Words c) {
  return ForEach(
      [&](int i) { return Half(FromHalf(a.lane[i]) * FromHalf(b.lane[i]) + FromHalf(c.lane[i])); });
}
Words Narrow(Words x) {
  return ForEach([&](int i) {
    return (static_cast<uint32_t>(static_cast<int16_t>(x.lane[i]) >> 3) & 0x8fff) | 0x3000;
  });
}

Vec16 ConvertInts16(const int32_t* from) {
  Vec16 out;
  for (int i = 0; i < 16; ++i) out.lane[i] = static_cast<float>(from[i]);
  return out;
}

const GemmKernels& VectorKernels() { return ScalarBf16TilesGemmKernels(); }

#include "kernels/cpu/amx/gemm_unit.inc"

constexpr GemmKernels kTable = {"amx-emulated", true, true,      UnitTileRows,
                                QuantizeRange,  Gemm, GateStored};

}  // namespace
}  // namespace amx_emulated

const GemmKernels& AmxEmulatedGemmKernelsForTest() { return amx_emulated::kTable; }

}  // namespace tutti::kernels
