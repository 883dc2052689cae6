// Vec16 over two ymm registers; the operations and their meaning are those of
// cpu/scalar/gemm_vec.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace {

struct Vec16 {
  __m256 low;   // lanes 0..7
  __m256 high;  // lanes 8..15
};

inline Vec16 Load16(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void Store16(float* p, Vec16 v) {
  _mm256_storeu_ps(p, v.low);
  _mm256_storeu_ps(p + 8, v.high);
}
// 16 halves to floats.
inline Vec16 WidenHalf16(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
inline Vec16 Set16(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Vec16 Add(Vec16 a, Vec16 b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
inline Vec16 Sub(Vec16 a, Vec16 b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
inline Vec16 Mul(Vec16 a, Vec16 b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
inline Vec16 Div(Vec16 a, Vec16 b) {
  return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
inline Vec16 Fma(Vec16 a, Vec16 b, Vec16 c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Vec16 Max(Vec16 a, Vec16 b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
inline Vec16 Min(Vec16 a, Vec16 b) {
  return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}
inline Vec16 Abs(Vec16 a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.low), _mm256_andnot_ps(sign, a.high)};
}
inline Vec16 Round(Vec16 a) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.low, kMode), _mm256_round_ps(a.high, kMode)};
}
inline __m256 PowerOfTwo8(__m256 n) {
  const __m256i exponent = _mm256_add_epi32(_mm256_cvttps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}
inline Vec16 PowerOfTwo(Vec16 n) { return {PowerOfTwo8(n.low), PowerOfTwo8(n.high)}; }
inline float SumLanes(Vec16 a) {
  const __m256 eight = _mm256_add_ps(a.low, a.high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline bool AnyGreater(Vec16 a, float x) {
  const __m256 limit = _mm256_set1_ps(x);
  const __m256 above = _mm256_or_ps(_mm256_cmp_ps(a.low, limit, _CMP_GT_OQ),
                                    _mm256_cmp_ps(a.high, limit, _CMP_GT_OQ));
  return _mm256_movemask_ps(above) != 0;
}

inline uint32_t MaxMagnitude(const float* x, int32_t blocks) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  const __m256i* p = reinterpret_cast<const __m256i*>(x);
  __m256i a = _mm256_setzero_si256();
  __m256i b = _mm256_setzero_si256();
  for (int32_t i = 0; i < 2 * blocks; ++i, p += 2) {
    a = _mm256_max_epu32(a, _mm256_and_si256(_mm256_loadu_si256(p), magnitude));
    b = _mm256_max_epu32(b, _mm256_and_si256(_mm256_loadu_si256(p + 1), magnitude));
  }
  const __m256i max8 = _mm256_max_epu32(a, b);
  __m128i max4 = _mm_max_epu32(_mm256_castsi256_si128(max8), _mm256_extracti128_si256(max8, 1));
  max4 = _mm_max_epu32(max4, _mm_shuffle_epi32(max4, 0x4e));
  max4 = _mm_max_epu32(max4, _mm_shuffle_epi32(max4, 0xb1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(max4));
}
// Values outside int32 convert to 0x80000000; its low byte, the one that is kept, is 0.
inline int32_t SumFour(__m128i sum) {
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
}
inline void QuantizeBlocks(const float* x, float scale, int32_t blocks, int8_t* out, size_t stride,
                           int32_t (&halves)[2]) {
  const __m256 s = _mm256_set1_ps(scale);
  const __m256i byte = _mm256_set1_epi32(255);
  __m256i sum8 = _mm256_setzero_si256();
  for (int32_t b = 0; b < blocks; ++b, x += 32, out += stride) {
    __m256i i[4];
    for (int part = 0; part < 4; ++part) {
      i[part] = _mm256_and_si256(
          _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * part), s)), byte);
    }
    // Packing works within 128-bit halves; the permutation puts the eight groups of four back in
    // order.
    const __m256i packed =
        _mm256_packus_epi16(_mm256_packus_epi32(i[0], i[1]), _mm256_packus_epi32(i[2], i[3]));
    const __m256i q =
        _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), q);
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), q);
    sum8 = _mm256_add_epi32(sum8, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  halves[0] = SumFour(_mm256_castsi256_si128(sum8));
  halves[1] = SumFour(_mm256_extracti128_si256(sum8, 1));
}
inline float SquareRoot(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

}  // namespace
