// The tile unit of cpu/amx/tile_unit.h in plain C++, so that every machine runs the tiles written
// over it. Rows and bytes beyond a tile's shape are zero, as in the unit.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "tensor/blocks.h"

namespace {

struct TileShapes {
  uint16_t row_bytes[8] = {};
  uint8_t rows[8] = {};
};

struct Unit {
  TileShapes shapes;
  uint8_t tiles[8][16][64];
};
thread_local Unit unit;

inline void UseTiles(const TileShapes& shapes) {
  unit.shapes = shapes;
  std::memset(unit.tiles, 0, sizeof unit.tiles);
}
inline void ReleaseTiles() {}

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
inline float Normal(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
inline float BFloat(const uint8_t* from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return Normal(tutti::tensor::BFloatToFloat(bits));
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

// sum[m][n] += a[m][k] * b[k / 4][4 n + k % 4] for all k, of bytes as A and B.
template <typename A, typename B, int kSum, int kA, int kB>
void MultiplyAddBytes() {
  for (int m = 0; m < unit.shapes.rows[kSum]; ++m) {
    for (int n = 0; n < unit.shapes.row_bytes[kSum] / 4; ++n) {
      int32_t sum;
      std::memcpy(&sum, unit.tiles[kSum][m] + 4 * n, sizeof sum);
      for (int k = 0; k < unit.shapes.row_bytes[kA]; ++k) {
        sum += static_cast<A>(unit.tiles[kA][m][k]) *
               static_cast<B>(unit.tiles[kB][k / 4][4 * n + k % 4]);
      }
      std::memcpy(unit.tiles[kSum][m] + 4 * n, &sum, sizeof sum);
    }
  }
}
template <int kSum, int kA, int kB>
void MultiplyAddSignedUnsigned() {
  MultiplyAddBytes<int8_t, uint8_t, kSum, kA, kB>();
}
template <int kSum, int kA, int kB>
void MultiplyAddSigned() {
  MultiplyAddBytes<int8_t, int8_t, kSum, kA, kB>();
}

}  // namespace
