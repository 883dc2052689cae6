// Peak loops of Armv8.2: sdot, and fmla.
#include <arm_neon.h>

#include "kernels/cpu/gemm_peak.h"
#include "kernels/cpu/unroll.h"

namespace tutti::kernels {
namespace {

using IntVector = int32x4_t;
using FloatVector = float32x4_t;
constexpr int kBytes = 16;
constexpr int kFloats = 4;
inline int32x4_t IntZero() { return vdupq_n_s32(0); }
inline float32x4_t FloatZero() { return vdupq_n_f32(0.0f); }
inline int32x4_t MultiplyInt8(int32x4_t sum) {
  return vdotq_s32(sum, vdupq_n_s8(3), vdupq_n_s8(5));
}
inline float32x4_t MultiplyFloat(float32x4_t sum) {
  return vfmaq_f32(vdupq_n_f32(1.0f), sum, vdupq_n_f32(0.5f));
}
#define TUTTI_OPAQUE(value) __asm__ volatile("" : "+w"(value))

#include "kernels/cpu/gemm_peak.inc"

}  // namespace

const PeakKernels& NeonDotPeakKernels() { return kPeak; }

}  // namespace tutti::kernels
