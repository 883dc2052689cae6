// The processor's tile unit: eight registers of up to 16 rows of 64 bytes, and products of them.
//
// The tiles of gemm_unit.inc are written over these operations. gemm_amx_emulated_test.cc has
// the same ones in plain C++, so that they run on every machine. Not the intrinsics of GCC 12:
// those that load do not tell the compiler what they read, and the one that stores makes it keep
// all sums in memory, as if they could change. Source: Intel SDM volume 2, TDPBSUD, TDPBF16PS,
// LDTILECFG, TILELOADD, TILESTORED.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace {

// What LDTILECFG reads.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

inline void UseTiles(const TileShapes& shapes) { __asm__ volatile("ldtilecfg %0" ::"m"(shapes)); }
// A thread that keeps tiles in use makes every switch of threads save them.
inline void ReleaseTiles() { __asm__ volatile("tilerelease"); }

// Rows `stride` bytes apart.
template <int kTile>
inline void LoadTile(const void* from, int64_t stride) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kTile),
                   "m"(*static_cast<const char(*)[]>(from)));
}
template <int kTile>
inline void StoreTile(void* to, int64_t stride) {
  __asm__ volatile("tilestored %%tmm%c3, (%1,%2,1)"
                   : "=m"(*static_cast<char(*)[]>(to))
                   : "r"(to), "r"(stride), "i"(kTile));
}
template <int kTile>
inline void ZeroTile() {
  __asm__ volatile("tilezero %%tmm%c0" ::"i"(kTile));
}
// sum[m][n] += the products of bytes 4k to 4k + 3 of a's row m, signed, and of bytes 4n to 4n + 3
// of b's row k, unsigned, for all k.
template <int kSum, int kA, int kB>
inline void MultiplyAdd() {
  __asm__ volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kA), "i"(kB));
}

// sum[m][n] += the products of the pairs of bfloat16 k of a's row m and n of b's row k: those of
// the even and of the odd elements in two sums, which are added at the end.
template <int kSum, int kA, int kB>
inline void MultiplyAddBf16() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kA), "i"(kB));
}

// 16 integers to floats.
inline __m512 ConvertInts16(const int32_t* from) {
  return _mm512_cvtepi32_ps(_mm512_load_si512(from));
}

}  // namespace
