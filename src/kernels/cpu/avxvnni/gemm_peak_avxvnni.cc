// Peak loops of AVX-VNNI: vpdpbusd on ymm, and vfmadd.
#include <immintrin.h>

#include "kernels/cpu/gemm_peak.h"
#include "kernels/cpu/unroll.h"

namespace tutti::kernels {
namespace {

using IntVector = __m256i;
using FloatVector = __m256;
constexpr int kBytes = 32;
constexpr int kFloats = 8;
inline __m256i IntZero() { return _mm256_setzero_si256(); }
inline __m256 FloatZero() { return _mm256_setzero_ps(); }
inline __m256i MultiplyInt8(__m256i sum) {
  return _mm256_dpbusd_avx_epi32(sum, _mm256_set1_epi8(3), _mm256_set1_epi8(5));
}
inline __m256 MultiplyFloat(__m256 sum) {
  return _mm256_fmadd_ps(sum, _mm256_set1_ps(0.5f), _mm256_set1_ps(1.0f));
}
#define TUTTI_OPAQUE(value) __asm__ volatile("" : "+x"(value))

#include "kernels/cpu/gemm_peak.inc"

}  // namespace

const PeakKernels& AvxVnniPeakKernels() { return kPeak; }

}  // namespace tutti::kernels
