// Attention over spans with NEON: score tiles of 8 keys x 8 queries, value tiles of 8 rows x 8
// dims.
#include <arm_neon.h>

#include "kernels/cpu/unroll.h"
#include "kernels/span_attention.h"

namespace tutti::kernels {
namespace {

using Lanes = float32x4_t;
constexpr int kLanes = 4;
constexpr int kGroup = 8;

inline Lanes Load(const float* p) { return vld1q_f32(p); }
inline void Store(float* p, Lanes v) { vst1q_f32(p, v); }
inline Lanes Set(float x) { return vdupq_n_f32(x); }
inline Lanes Zero() { return vdupq_n_f32(0.0f); }
inline Lanes Mul(Lanes a, Lanes b) { return vmulq_f32(a, b); }
inline Lanes Add(Lanes a, Lanes b) { return vaddq_f32(a, b); }
inline Lanes Sub(Lanes a, Lanes b) { return vsubq_f32(a, b); }
inline Lanes Div(Lanes a, Lanes b) { return vdivq_f32(a, b); }
inline Lanes Fma(Lanes a, Lanes b, Lanes c) { return vfmaq_f32(c, a, b); }
inline Lanes Max(Lanes a, Lanes b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }

// Minimax of degree 5 on [-1/2, 1/2]: 1.6e-7 relative; 0 below 2^-126.
inline Lanes Exp2(Lanes x) {
  x = Max(Set(-127.0f), x);
  const Lanes n = vrndnq_f32(x);
  const Lanes r = Sub(x, n);
  Lanes p = Set(1.326472716e-3f);
  p = Fma(p, r, Set(9.671512889e-3f));
  p = Fma(p, r, Set(5.550733746e-2f));
  p = Fma(p, r, Set(2.402224208e-1f));
  p = Fma(p, r, Set(6.931469776e-1f));
  p = Fma(p, r, Set(1.0f));
  const int32x4_t exponent = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
  return Mul(p, vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23)));
}

void Transpose(const float* from, size_t stride, int32_t rows, Lanes factor, float* to);

#include "kernels/cpu/span_attention_vector.inc"

void Transpose(const float* from, size_t stride, int32_t rows, Lanes factor, float* to) {
  float32x4_t r[4];
  TUTTI_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    r[i] = i < rows ? Mul(Load(from + static_cast<size_t>(i) * stride), factor) : Zero();
  }
  const float32x4x2_t low = vtrnq_f32(r[0], r[1]);
  const float32x4x2_t high = vtrnq_f32(r[2], r[3]);
  TUTTI_UNROLL(2)
  for (int i = 0; i < 2; ++i) {
    Store(to + i * kTile, vcombine_f32(vget_low_f32(low.val[i]), vget_low_f32(high.val[i])));
    Store(to + (i + 2) * kTile,
          vcombine_f32(vget_high_f32(low.val[i]), vget_high_f32(high.val[i])));
  }
}

}  // namespace

const SpanAttentionKernels& NeonSpanAttentionKernels() {
  static constexpr SpanAttentionKernels kKernels = {"neon", RunItem};
  return kKernels;
}

}  // namespace tutti::kernels
