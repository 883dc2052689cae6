// Row operations with NEON.
#include "kernels/cpu/neon/gemm_vec.h"
#include "kernels/cpu/unroll.h"
#include "kernels/rows.h"

namespace tutti::kernels {
namespace {

inline Vec16 LoadFirst(const float* p, int32_t count, float fill) {
  alignas(64) float values[16];
  for (int32_t i = 0; i < 16; ++i) values[i] = i < count ? p[i] : fill;
  return Load16(values);
}
inline void StoreFirst(float* p, Vec16 v, int32_t count) {
  alignas(64) float values[16];
  Store16(values, v);
  for (int32_t i = 0; i < count; ++i) p[i] = values[i];
}
inline float MaxLanes(Vec16 v) {
  return vmaxvq_f32(vmaxq_f32(vmaxq_f32(v.part[0], v.part[1]), vmaxq_f32(v.part[2], v.part[3])));
}
inline Vec16 ZeroWhereLess(Vec16 x, Vec16 limit, Vec16 y) {
  Vec16 out;
  for (int i = 0; i < 4; ++i) {
    const uint32x4_t less = vcltq_f32(x.part[i], limit.part[i]);
    out.part[i] = vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(y.part[i]), less));
  }
  return out;
}
inline Vec16 WhereGreater(Vec16 x, Vec16 limit, Vec16 y, Vec16 z) {
  Vec16 out;
  for (int i = 0; i < 4; ++i) {
    out.part[i] = vbslq_f32(vcgtq_f32(x.part[i], limit.part[i]), z.part[i], y.part[i]);
  }
  return out;
}
inline uint32_t EqualLanes(Vec16 v, float x) {
  constexpr uint32_t kBits[4] = {1, 2, 4, 8};
  const uint32x4_t bits = vld1q_u32(kBits);
  const float32x4_t all = vdupq_n_f32(x);
  uint32_t lanes = 0;
  for (int i = 0; i < 4; ++i) {
    lanes |= vaddvq_u32(vandq_u32(vceqq_f32(v.part[i], all), bits)) << (4 * i);
  }
  return lanes;
}
inline Vec16 WidenBfloat16(const uint16_t* p) {
  Vec16 out;
  for (int i = 0; i < 4; ++i)
    out.part[i] = vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(vld1_u16(p + 4 * i)), 16));
  return out;
}
constexpr int kLowRankSums = 6;
#include "kernels/cpu/rows_vector.inc"
// Behind it, because it uses its functions.
#include "kernels/cpu/low_rank_vector.inc"

}  // namespace

const RowKernels& NeonRowKernels() {
  static constexpr RowKernels kKernels = {"neon",      RmsNorm, LayerNorm, AddRow,
                                          MultiplyRow, SiluMul, ArgmaxRow, LowRank};
  return kKernels;
}

}  // namespace tutti::kernels
