// Attention over spans with AVX-512: score tiles of 8 keys x 32 queries, value tiles of 8 rows x 32
// dims.
#include <immintrin.h>

#include "kernels/cpu/unroll.h"
#include "kernels/span_attention.h"

namespace tutti::kernels {
namespace {

using Lanes = __m512;
constexpr int kLanes = 16;
constexpr int kGroup = 8;

inline Lanes Load(const float* p) { return _mm512_loadu_ps(p); }
inline void Store(float* p, Lanes v) { _mm512_storeu_ps(p, v); }
inline Lanes Set(float x) { return _mm512_set1_ps(x); }
inline Lanes Zero() { return _mm512_setzero_ps(); }
inline Lanes Mul(Lanes a, Lanes b) { return _mm512_mul_ps(a, b); }
inline Lanes Add(Lanes a, Lanes b) { return _mm512_add_ps(a, b); }
inline Lanes Sub(Lanes a, Lanes b) { return _mm512_sub_ps(a, b); }
inline Lanes Div(Lanes a, Lanes b) { return _mm512_div_ps(a, b); }
inline Lanes Fma(Lanes a, Lanes b, Lanes c) { return _mm512_fmadd_ps(a, b, c); }
inline Lanes Max(Lanes a, Lanes b) { return _mm512_max_ps(a, b); }

// Minimax of degree 5 on [-1/2, 1/2]: 1.6e-7 relative.
inline Lanes Exp2(Lanes x) {
  x = Max(Set(-200.0f), x);  // -inf minus its rounding would be a NaN
  const Lanes n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const Lanes r = Sub(x, n);
  Lanes p = Set(1.326472716e-3f);
  p = Fma(p, r, Set(9.671512889e-3f));
  p = Fma(p, r, Set(5.550733746e-2f));
  p = Fma(p, r, Set(2.402224208e-1f));
  p = Fma(p, r, Set(6.931469776e-1f));
  p = Fma(p, r, Set(1.0f));
  return _mm512_scalef_ps(p, n);
}

// 16 x 16, by ever longer runs that stay together: 1, 2, 4 and 8 floats.
inline void TransposeRegisters(__m512 (&r)[16]) {
  __m512 t[16];
  TUTTI_UNROLL(8)
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  TUTTI_UNROLL(4)
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  TUTTI_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
  }
  TUTTI_UNROLL(8)
  for (int i = 0; i < 8; ++i) {
    r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
  }
}

void Transpose(const float* from, size_t stride, int32_t rows, Lanes factor, float* to);

#include "kernels/cpu/span_attention_vector.inc"

void Transpose(const float* from, size_t stride, int32_t rows, Lanes factor, float* to) {
  __m512 r[16];
  if (rows >= 16) {
    TUTTI_UNROLL(16)
    for (int i = 0; i < 16; ++i) r[i] = Mul(Load(from + static_cast<size_t>(i) * stride), factor);
  } else {
    TUTTI_UNROLL(16)
    for (int i = 0; i < 16; ++i) {
      r[i] = i < rows ? Mul(Load(from + static_cast<size_t>(i) * stride), factor) : Zero();
    }
  }
  TransposeRegisters(r);
  TUTTI_UNROLL(16)
  for (int i = 0; i < 16; ++i) Store(to + i * kTile, r[i]);
}

}  // namespace

const SpanAttentionKernels& Avx512VnniSpanAttentionKernels() {
  static constexpr SpanAttentionKernels kKernels = {"avx512vnni", RunItem};
  return kKernels;
}

}  // namespace tutti::kernels
