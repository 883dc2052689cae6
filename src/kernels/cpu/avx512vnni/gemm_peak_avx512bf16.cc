// Peak loop of AVX512_BF16: vdpbf16ps on zmm; the others are those of AVX-512 VNNI.
#include <immintrin.h>

#include "kernels/cpu/gemm_peak.h"
#include "kernels/cpu/unroll.h"

namespace tutti::kernels {
namespace {

constexpr int kSums = 12;

}  // namespace

double Avx512Bf16Peak(int64_t rounds) {
  const __m512bh half = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3f003f00));
  __m512 sum[kSums];
  TUTTI_UNROLL(12)
  for (int i = 0; i < kSums; ++i) sum[i] = _mm512_setzero_ps();
  for (int64_t round = 0; round < rounds; ++round) {
    TUTTI_UNROLL(12)
    for (int i = 0; i < kSums; ++i) {
      sum[i] = _mm512_dpbf16_ps(sum[i], half, half);
      __asm__ volatile(""
                       : "+v"(sum[i]));  // the compiler must believe that every value is looked at
    }
  }
  return 2.0 * 32 * kSums * static_cast<double>(rounds);
}

}  // namespace tutti::kernels
