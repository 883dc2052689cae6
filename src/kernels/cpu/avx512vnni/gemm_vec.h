// Vec16 over one zmm register; the operations and their meaning are those of cpu/scalar/gemm_vec.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace {

using Vec16 = __m512;

inline Vec16 Load16(const float* p) { return _mm512_loadu_ps(p); }
inline void Store16(float* p, Vec16 v) { _mm512_storeu_ps(p, v); }
// 16 halves to floats.
inline Vec16 WidenHalf16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline Vec16 Set16(float x) { return _mm512_set1_ps(x); }
inline Vec16 Add(Vec16 a, Vec16 b) { return _mm512_add_ps(a, b); }
inline Vec16 Sub(Vec16 a, Vec16 b) { return _mm512_sub_ps(a, b); }
inline Vec16 Mul(Vec16 a, Vec16 b) { return _mm512_mul_ps(a, b); }
inline Vec16 Div(Vec16 a, Vec16 b) { return _mm512_div_ps(a, b); }
inline Vec16 Fma(Vec16 a, Vec16 b, Vec16 c) { return _mm512_fmadd_ps(a, b, c); }
inline Vec16 Max(Vec16 a, Vec16 b) { return _mm512_max_ps(a, b); }
inline Vec16 Min(Vec16 a, Vec16 b) { return _mm512_min_ps(a, b); }
inline Vec16 Abs(Vec16 a) { return _mm512_abs_ps(a); }
inline Vec16 Round(Vec16 a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline Vec16 PowerOfTwo(Vec16 n) {
  const __m512i exponent = _mm512_add_epi32(_mm512_cvttps_epi32(n), _mm512_set1_epi32(127));
  return _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23));
}
inline float SumLanes(Vec16 a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline bool AnyGreater(Vec16 a, float x) {
  return _mm512_cmp_ps_mask(a, _mm512_set1_ps(x), _CMP_GT_OQ) != 0;
}

inline uint32_t MaxMagnitude(const float* x, int32_t blocks) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  __m512i a = _mm512_and_si512(_mm512_loadu_si512(x), magnitude);
  __m512i b = _mm512_and_si512(_mm512_loadu_si512(x + 16), magnitude);
  for (int32_t i = 1; i < blocks; ++i) {
    a = _mm512_max_epu32(a, _mm512_and_si512(_mm512_loadu_si512(x + 32 * i), magnitude));
    b = _mm512_max_epu32(b, _mm512_and_si512(_mm512_loadu_si512(x + 32 * i + 16), magnitude));
  }
  const __m512i max16 = _mm512_max_epu32(a, b);
  const __m256i max8 =
      _mm256_max_epu32(_mm512_castsi512_si256(max16), _mm512_extracti64x4_epi64(max16, 1));
  __m128i max4 = _mm_max_epu32(_mm256_castsi256_si128(max8), _mm256_extracti128_si256(max8, 1));
  max4 = _mm_max_epu32(max4, _mm_shuffle_epi32(max4, 0x4e));
  max4 = _mm_max_epu32(max4, _mm_shuffle_epi32(max4, 0xb1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(max4));
}
// Values outside int32 convert to 0x80000000, whose low byte is 0.
inline int32_t SumFour(__m128i sum) {
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
}
inline void QuantizeBlocks(const float* x, float scale, int32_t blocks, int8_t* out, size_t stride,
                           int32_t (&halves)[2]) {
  const __m512 s = _mm512_set1_ps(scale);
  __m256i sum8 = _mm256_setzero_si256();
  for (int32_t b = 0; b < blocks; ++b, x += 32, out += stride) {
    const __m512i i0 = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), s));
    const __m512i i1 = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 16), s));
    const __m256i q = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm512_cvtepi32_epi8(i0)),
                                              _mm512_cvtepi32_epi8(i1), 1);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), q);
    sum8 = _mm256_dpbusd_epi32(sum8, _mm256_set1_epi8(1), q);
  }
  halves[0] = SumFour(_mm256_castsi256_si128(sum8));
  halves[1] = SumFour(_mm256_extracti128_si256(sum8, 1));
}
inline float SquareRoot(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

}  // namespace
