// Peak loops of plain C++: one product at a time.
#include "kernels/cpu/gemm_peak.h"
#include "kernels/cpu/unroll.h"

namespace tutti::kernels {
namespace {

using IntVector = uint32_t;
using FloatVector = float;
constexpr int kBytes = 1;
constexpr int kFloats = 1;
uint32_t IntZero() { return 0; }
float FloatZero() { return 0.0f; }
uint32_t MultiplyInt8(uint32_t sum) { return sum * 3 + 1; }
float MultiplyFloat(float sum) { return sum * 0.5f + 1.0f; }
#define TUTTI_OPAQUE(value) __asm__ volatile("" : "+g"(value))

#include "kernels/cpu/gemm_peak.inc"

}  // namespace

const PeakKernels& ScalarPeakKernels() { return kPeak; }

}  // namespace tutti::kernels
