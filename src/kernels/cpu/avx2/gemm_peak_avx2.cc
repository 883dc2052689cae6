// Peak loops of AVX2: vpmaddubsw plus the addition that accumulates it, and vfmadd.
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
  __m256i product;  // by assembly, or the constant product would be computed once
  __asm__ volatile("vpmaddubsw %1, %1, %0" : "=x"(product) : "x"(_mm256_set1_epi8(3)));
  return _mm256_add_epi16(sum, product);
}
inline __m256 MultiplyFloat(__m256 sum) {
  return _mm256_fmadd_ps(sum, _mm256_set1_ps(0.5f), _mm256_set1_ps(1.0f));
}
#define TUTTI_OPAQUE(value) __asm__ volatile("" : "+x"(value))

#include "kernels/cpu/gemm_peak.inc"

}  // namespace

const PeakKernels& Avx2PeakKernels() { return kPeak; }

}  // namespace tutti::kernels
