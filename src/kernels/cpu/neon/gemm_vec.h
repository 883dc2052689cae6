// Vec16 over four NEON registers; the operations and their meaning are those of
// cpu/scalar/gemm_vec.h.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/unroll.h"

namespace {

struct Vec16 {
  float32x4_t part[4];  // lanes 4i..4i+3
};

#define TUTTI_PARTS(expression)                           \
  Vec16 out;                                              \
  TUTTI_UNROLL(4)                                         \
  for (int i = 0; i < 4; ++i) out.part[i] = (expression); \
  return out

inline Vec16 Load16(const float* p) { TUTTI_PARTS(vld1q_f32(p + 4 * i)); }
inline void Store16(float* p, Vec16 v) {
  TUTTI_UNROLL(4)
  for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, v.part[i]);
}
// 16 halves to floats.
inline Vec16 WidenHalf16(const uint16_t* p) {
  TUTTI_PARTS(vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i))));
}
inline Vec16 Set16(float x) { TUTTI_PARTS(vdupq_n_f32(x)); }
inline Vec16 Add(Vec16 a, Vec16 b) { TUTTI_PARTS(vaddq_f32(a.part[i], b.part[i])); }
inline Vec16 Sub(Vec16 a, Vec16 b) { TUTTI_PARTS(vsubq_f32(a.part[i], b.part[i])); }
inline Vec16 Mul(Vec16 a, Vec16 b) { TUTTI_PARTS(vmulq_f32(a.part[i], b.part[i])); }
inline Vec16 Div(Vec16 a, Vec16 b) { TUTTI_PARTS(vdivq_f32(a.part[i], b.part[i])); }
inline Vec16 Fma(Vec16 a, Vec16 b, Vec16 c) {
  TUTTI_PARTS(vfmaq_f32(c.part[i], a.part[i], b.part[i]));
}
// By comparison and selection, because NEON's own maximum of a number and a NaN is always the NaN.
inline Vec16 Max(Vec16 a, Vec16 b) {
  TUTTI_PARTS(vbslq_f32(vcgtq_f32(a.part[i], b.part[i]), a.part[i], b.part[i]));
}
inline Vec16 Min(Vec16 a, Vec16 b) {
  TUTTI_PARTS(vbslq_f32(vcltq_f32(a.part[i], b.part[i]), a.part[i], b.part[i]));
}
inline Vec16 Abs(Vec16 a) { TUTTI_PARTS(vabsq_f32(a.part[i])); }
inline Vec16 Round(Vec16 a) { TUTTI_PARTS(vrndnq_f32(a.part[i])); }
inline Vec16 PowerOfTwo(Vec16 n) {
  const int32x4_t bias = vdupq_n_s32(127);
  TUTTI_PARTS(vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n.part[i]), bias), 23)));
}
inline float SumLanes(Vec16 a) {
  const float32x4_t four =
      vaddq_f32(vaddq_f32(a.part[0], a.part[2]), vaddq_f32(a.part[1], a.part[3]));
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
inline bool AnyGreater(Vec16 a, float x) {
  const float32x4_t limit = vdupq_n_f32(x);
  uint32x4_t above = vcgtq_f32(a.part[0], limit);
  for (int i = 1; i < 4; ++i) above = vorrq_u32(above, vcgtq_f32(a.part[i], limit));
  return vmaxvq_u32(above) != 0;
}

inline uint32_t MaxMagnitude(const float* x, int32_t blocks) {
  const uint32x4_t magnitude = vdupq_n_u32(0x7fffffff);
  uint32x4_t max[4] = {};
  for (int32_t i = 0; i < 2 * blocks; ++i, x += 16) {
    TUTTI_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const uint32x4_t bits = vreinterpretq_u32_f32(vld1q_f32(x + 4 * j));
      max[j] = vmaxq_u32(max[j], vandq_u32(bits, magnitude));
    }
  }
  return vmaxvq_u32(vmaxq_u32(vmaxq_u32(max[0], max[1]), vmaxq_u32(max[2], max[3])));
}
// Four floats times s, rounded. Conversion saturates here: what fits no int32 is made 0 by hand.
inline int32x4_t QuantizeFour(const float* x, float32x4_t s) {
  const float32x4_t v = vmulq_f32(vld1q_f32(x), s);
  const uint32x4_t fits = vcaltq_f32(v, vdupq_n_f32(0x1p31f));
  return vandq_s32(vcvtnq_s32_f32(v), vreinterpretq_s32_u32(fits));
}
inline void QuantizeBlocks(const float* x, float scale, int32_t blocks, int8_t* out, size_t stride,
                           int32_t (&halves)[2]) {
  const float32x4_t s = vdupq_n_f32(scale);
  int32x4_t sum[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
  for (int32_t b = 0; b < blocks; ++b, x += 32, out += stride) {
    TUTTI_UNROLL(2)
    for (int i = 0; i < 32; i += 16) {
      const int16x8_t low =
          vcombine_s16(vmovn_s32(QuantizeFour(x + i, s)), vmovn_s32(QuantizeFour(x + i + 4, s)));
      const int16x8_t high = vcombine_s16(vmovn_s32(QuantizeFour(x + i + 8, s)),
                                          vmovn_s32(QuantizeFour(x + i + 12, s)));
      const int8x16_t q = vcombine_s8(vmovn_s16(low), vmovn_s16(high));
      vst1q_s8(out + i, q);
      sum[i / 16] = vpadalq_s16(sum[i / 16], vpaddlq_s8(q));
    }
  }
  halves[0] = vaddvq_s32(sum[0]);
  halves[1] = vaddvq_s32(sum[1]);
}
inline float SquareRoot(float x) { return vget_lane_f32(vsqrt_f32(vdup_n_f32(x)), 0); }

#undef TUTTI_PARTS

}  // namespace
