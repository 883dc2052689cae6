// Peak loops of AVX-512 VNNI: vpdpbusd and vfmadd on zmm.
#include <immintrin.h>

#include "kernels/cpu/gemm_peak.h"
#include "kernels/cpu/unroll.h"

namespace tutti::kernels {
namespace {

using IntVector = __m512i;
using FloatVector = __m512;
constexpr int kBytes = 64;
constexpr int kFloats = 16;
inline __m512i IntZero() { return _mm512_setzero_si512(); }
inline __m512 FloatZero() { return _mm512_setzero_ps(); }
inline __m512i MultiplyInt8(__m512i sum) {
  return _mm512_dpbusd_epi32(sum, _mm512_set1_epi8(3), _mm512_set1_epi8(5));
}
inline __m512 MultiplyFloat(__m512 sum) {
  return _mm512_fmadd_ps(sum, _mm512_set1_ps(0.5f), _mm512_set1_ps(1.0f));
}
#define TUTTI_OPAQUE(value) __asm__ volatile("" : "+v"(value))

#include "kernels/cpu/gemm_peak.inc"

}  // namespace

const PeakKernels& Avx512VnniPeakKernels() { return kPeak; }

}  // namespace tutti::kernels
