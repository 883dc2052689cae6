// Attention over spans with AVX2 and FMA: score tiles of 6 keys x 16 queries, value tiles of 6 rows
// x 16 dims.
#include <immintrin.h>

#include "kernels/cpu/unroll.h"
#include "kernels/span_attention.h"

namespace tutti::kernels {
namespace {

using Lanes = __m256;
constexpr int kLanes = 8;
constexpr int kGroup = 6;

inline Lanes Load(const float* p) { return _mm256_loadu_ps(p); }
inline void Store(float* p, Lanes v) { _mm256_storeu_ps(p, v); }
inline Lanes Set(float x) { return _mm256_set1_ps(x); }
inline Lanes Zero() { return _mm256_setzero_ps(); }
inline Lanes Mul(Lanes a, Lanes b) { return _mm256_mul_ps(a, b); }
inline Lanes Add(Lanes a, Lanes b) { return _mm256_add_ps(a, b); }
inline Lanes Sub(Lanes a, Lanes b) { return _mm256_sub_ps(a, b); }
inline Lanes Div(Lanes a, Lanes b) { return _mm256_div_ps(a, b); }
inline Lanes Fma(Lanes a, Lanes b, Lanes c) { return _mm256_fmadd_ps(a, b, c); }
inline Lanes Max(Lanes a, Lanes b) { return _mm256_max_ps(a, b); }

// Minimax of degree 5 on [-1/2, 1/2]: 1.6e-7 relative; 0 below 2^-126.
inline Lanes Exp2(Lanes x) {
  x = Max(Set(-127.0f), x);
  const Lanes n = _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const Lanes r = Sub(x, n);
  Lanes p = Set(1.326472716e-3f);
  p = Fma(p, r, Set(9.671512889e-3f));
  p = Fma(p, r, Set(5.550733746e-2f));
  p = Fma(p, r, Set(2.402224208e-1f));
  p = Fma(p, r, Set(6.931469776e-1f));
  p = Fma(p, r, Set(1.0f));
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return Mul(p, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
}

void Transpose(const float* from, size_t stride, int32_t rows, Lanes factor, float* to);

#include "kernels/cpu/span_attention_vector.inc"

void Transpose(const float* from, size_t stride, int32_t rows, Lanes factor, float* to) {
  __m256 r[8];
  __m256 t[8];
  TUTTI_UNROLL(8)
  for (int i = 0; i < 8; ++i) {
    r[i] = i < rows ? Mul(Load(from + static_cast<size_t>(i) * stride), factor) : Zero();
  }
  TUTTI_UNROLL(4)
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  TUTTI_UNROLL(2)
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  TUTTI_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    Store(to + i * kTile, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    Store(to + (i + 4) * kTile, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

}  // namespace

const SpanAttentionKernels& Avx2SpanAttentionKernels() {
  static constexpr SpanAttentionKernels kKernels = {"avx2", RunItem};
  return kKernels;
}

}  // namespace tutti::kernels
