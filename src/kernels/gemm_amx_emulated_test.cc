// The tiles of AMX over a tile unit in plain C++, for gemm_test.cc: every machine runs them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/scalar/gemm_vec.h"
#include "kernels/cpu/unroll.h"
#include "kernels/gemm.h"
#include "kernels/isa.h"
#include "tensor/blocks.h"

namespace tutti::kernels {
namespace amx_emulated {
namespace {

// The operations of cpu/amx/tile_unit.h. Rows and bytes beyond a tile's shape are zero, as in the
// unit.
struct TileShapes {
  uint16_t row_bytes[8] = {};
  uint8_t rows[8] = {};
};

struct Unit {
  TileShapes shapes;
  uint8_t tiles[8][16][64];
};
thread_local Unit unit;

void UseTiles(const TileShapes& shapes) {
  unit.shapes = shapes;
  std::memset(unit.tiles, 0, sizeof unit.tiles);
}
void ReleaseTiles() {}

template <int kTile>
void LoadTile(const void* from, int64_t stride) {
  std::memset(unit.tiles[kTile], 0, sizeof unit.tiles[kTile]);
  for (int r = 0; r < unit.shapes.rows[kTile]; ++r) {
    std::memcpy(unit.tiles[kTile][r], static_cast<const uint8_t*>(from) + r * stride,
                unit.shapes.row_bytes[kTile]);
  }
}
template <int kTile>
void StoreTile(void* to, int64_t stride) {
  for (int r = 0; r < unit.shapes.rows[kTile]; ++r) {
    std::memcpy(static_cast<uint8_t*>(to) + r * stride, unit.tiles[kTile][r],
                unit.shapes.row_bytes[kTile]);
  }
}

template <int kTile>
void ZeroTile() {
  std::memset(unit.tiles[kTile], 0, sizeof unit.tiles[kTile]);
}

// The pseudo-code of TDPBF16PS in the SDM: inputs and results below the normal floats are zero.
float Normal(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
float BFloat(const uint8_t* from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return Normal(tensor::BFloatToFloat(bits));
}
template <int kSum, int kA, int kB>
void MultiplyAddBf16() {
  for (int m = 0; m < unit.shapes.rows[kSum]; ++m) {
    for (int n = 0; n < unit.shapes.row_bytes[kSum] / 4; ++n) {
      float even = 0, odd = 0, sum;
      for (int k = 0; k < unit.shapes.row_bytes[kA] / 4; ++k) {
        const uint8_t* a = unit.tiles[kA][m] + 4 * k;
        const uint8_t* b = unit.tiles[kB][k] + 4 * n;
        even = Normal(std::fma(BFloat(a), BFloat(b), even));
        odd = Normal(std::fma(BFloat(a + 2), BFloat(b + 2), odd));
      }
      std::memcpy(&sum, unit.tiles[kSum][m] + 4 * n, sizeof sum);
      sum = Normal(sum + Normal(even + odd));
      std::memcpy(unit.tiles[kSum][m] + 4 * n, &sum, sizeof sum);
    }
  }
}

template <int kSum, int kA, int kB>
void MultiplyAdd() {
  for (int m = 0; m < unit.shapes.rows[kSum]; ++m) {
    for (int n = 0; n < unit.shapes.row_bytes[kSum] / 4; ++n) {
      int32_t sum;
      std::memcpy(&sum, unit.tiles[kSum][m] + 4 * n, sizeof sum);
      for (int k = 0; k < unit.shapes.row_bytes[kA]; ++k) {
        const auto a = static_cast<int8_t>(unit.tiles[kA][m][k]);
        sum += a * unit.tiles[kB][k / 4][4 * n + k % 4];
      }
      std::memcpy(unit.tiles[kSum][m] + 4 * n, &sum, sizeof sum);
    }
  }
}

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

constexpr GemmKernels kTable = {"amx-emulated", true, true, UnitTileRows, QuantizeRange, Gemm};

}  // namespace
}  // namespace amx_emulated

const GemmKernels& AmxEmulatedGemmKernelsForTest() { return amx_emulated::kTable; }

}  // namespace tutti::kernels
