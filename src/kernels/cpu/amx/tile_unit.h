// The processor's tile unit: eight registers of up to 16 rows of 64 bytes, and products of them.
//
// The tiles of gemm_unit.inc are written over these operations. gemm_amx_emulated_test.cc has
// the same ones in plain C++, so that they run on every machine. Not the intrinsics of GCC 12:
// those that load do not tell the compiler what they read, and the one that stores makes it keep
// all sums in memory, as if they could change. Source: Intel SDM volume 2, TDPBSUD, TDPBSSD,
// TDPBUSD, TDPBF16PS, LDTILECFG, TILELOADD, TILESTORED. And the operations on fp16 that widen
// weights for it: processors with the unit have AVX512-FP16.
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

// Rows `stride` bytes apart. GCC is told which memory a tile is read from or written to: an array
// of unknown length. Clang has no such operand, so it takes all memory to be read and written.
template <int kTile>
inline void LoadTile(const void* from, int64_t stride) {
#if defined(__clang__)
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kTile) : "memory");
#else
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kTile),
                   "m"(*static_cast<const char(*)[]>(from)));
#endif
}
template <int kTile>
inline void StoreTile(void* to, int64_t stride) {
#if defined(__clang__)
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(kTile) : "memory");
#else
  __asm__ volatile("tilestored %%tmm%c3, (%1,%2,1)"
                   : "=m"(*static_cast<char(*)[]>(to))
                   : "r"(to), "r"(stride), "i"(kTile));
#endif
}
template <int kTile>
inline void ZeroTile() {
  __asm__ volatile("tilezero %%tmm%c0" ::"i"(kTile));
}
// sum[m][n] += the products of bytes 4k to 4k + 3 of a's row m, signed, and of bytes 4n to 4n + 3
// of b's row k, unsigned, for all k.
template <int kSum, int kA, int kB>
inline void MultiplyAddSignedUnsigned() {
  __asm__ volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kA), "i"(kB));
}

// The same with both signed.
template <int kSum, int kA, int kB>
inline void MultiplyAddSigned() {
  __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kA), "i"(kB));
}
// sum[m][n] += the products of the pairs of bfloat16 k of a's row m and n of b's row k: those of
// the even and of the odd elements in two sums, which are added at the end.
template <int kSum, int kA, int kB>
inline void MultiplyAddBf16() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kA), "i"(kB));
}

// 32 words, which hold bytes, fp16 or bfloat16.
using Words = __m512i;
inline Words LoadWords(const uint8_t* from) { return _mm512_load_si512(from); }
inline void StoreWords(uint8_t* to, Words x) { _mm512_store_si512(to, x); }
inline Words SetWords(uint16_t x) { return _mm512_set1_epi16(static_cast<int16_t>(x)); }
// 16 words, each twice.
inline Words LoadTwice(const uint8_t* from) {
  const __m512i words =
      _mm512_cvtepu16_epi32(_mm256_load_si256(reinterpret_cast<const __m256i*>(from)));
  return _mm512_or_si512(words, _mm512_slli_epi32(words, 16));
}
inline Words And(Words a, Words b) { return _mm512_and_si512(a, b); }
inline Words Or(Words a, Words b) { return _mm512_or_si512(a, b); }
template <int kBits>
inline Words Right(Words x) {
  return _mm512_srli_epi16(x, kBits);
}
template <int kBits>
inline Words Left(Words x) {
  return _mm512_slli_epi16(x, kBits);
}
// Adds 16 to the bytes whose bits are set.
inline Words AddSixteen(Words bytes, const uint8_t* mask) {
  uint64_t bits;
  __builtin_memcpy(&bits, mask, sizeof bits);
  return _mm512_mask_add_epi8(bytes, bits, bytes, _mm512_set1_epi8(16));
}
// Swaps the middle ones of every four bytes.
inline Words SwapMiddle(Words bytes) {
  const __m512i order =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
  return _mm512_shuffle_epi8(bytes, order);
}
// The lowest four or five bits, and whole words below 256, as fp16.
inline Words FourBits(Words x) {
  alignas(64) static constexpr uint16_t kHalves[32] = {
      0x0000, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800, 0x4880, 0x4900,
      0x4980, 0x4a00, 0x4a80, 0x4b00, 0x4b80, 0x0000, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500,
      0x4600, 0x4700, 0x4800, 0x4880, 0x4900, 0x4980, 0x4a00, 0x4a80, 0x4b00, 0x4b80};
  return _mm512_permutexvar_epi16(x, _mm512_load_si512(kHalves));
}
// The lowest four bits, a code of E2M1, as fp16 of kE2M1Codes.
inline Words E2M1Bits(Words x) {
  alignas(64) static constexpr uint16_t kHalves[32] = {
      0x4c00, 0x4c40, 0x4c80, 0x4cc0, 0x4d00, 0x4d80, 0x4e00, 0x4f00, 0x4c00, 0x4b80, 0x4b00,
      0x4a80, 0x4a00, 0x4900, 0x4800, 0x4400, 0x4c00, 0x4c40, 0x4c80, 0x4cc0, 0x4d00, 0x4d80,
      0x4e00, 0x4f00, 0x4c00, 0x4b80, 0x4b00, 0x4a80, 0x4a00, 0x4900, 0x4800, 0x4400};
  return _mm512_permutexvar_epi16(x, _mm512_load_si512(kHalves));
}
inline Words FiveBits(Words x) {
  alignas(64) static constexpr uint16_t kHalves[32] = {
      0x0000, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800, 0x4880, 0x4900,
      0x4980, 0x4a00, 0x4a80, 0x4b00, 0x4b80, 0x4c00, 0x4c40, 0x4c80, 0x4cc0, 0x4d00, 0x4d40,
      0x4d80, 0x4dc0, 0x4e00, 0x4e40, 0x4e80, 0x4ec0, 0x4f00, 0x4f40, 0x4f80, 0x4fc0};
  return _mm512_permutexvar_epi16(x, _mm512_load_si512(kHalves));
}
inline Words WholeWords(Words x) { return _mm512_castph_si512(_mm512_cvtepu16_ph(x)); }
inline Words MulHalves(Words a, Words b) {
  return _mm512_castph_si512(_mm512_mul_ph(_mm512_castsi512_ph(a), _mm512_castsi512_ph(b)));
}
// To [-limit, limit]; `limit`: the bits of a finite fp16.
inline Words LimitHalves(Words x, uint16_t limit) {
  const __m512h most = _mm512_castsi512_ph(SetWords(limit));
  const __m512h least = _mm512_castsi512_ph(SetWords(static_cast<uint16_t>(limit | 0x8000)));
  return _mm512_castph_si512(_mm512_min_ph(_mm512_max_ph(_mm512_castsi512_ph(x), least), most));
}
inline Words FmaHalves(Words a, Words b, Words c) {
  return _mm512_castph_si512(
      _mm512_fmadd_ph(_mm512_castsi512_ph(a), _mm512_castsi512_ph(b), _mm512_castsi512_ph(c)));
}
// fp16 to bfloat16, divided by 65536: the bits ((x >> 3) & 0x8fff) | 0x3000 (gemm.h).
inline Words Narrow(Words x) {
  constexpr int kAndOr = 0xea;
  return _mm512_ternarylogic_epi32(_mm512_srai_epi16(x, 3), _mm512_set1_epi16(-0x7001),
                                   _mm512_set1_epi16(0x3000), kAndOr);
}

// 16 integers to floats.
inline __m512 ConvertInts16(const int32_t* from) {
  return _mm512_cvtepi32_ps(_mm512_load_si512(from));
}

}  // namespace
