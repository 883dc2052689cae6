// The text of gemm_avxvnni.cc with EVEX encodings (AVX-512 VL + VNNI), for gemm_test.cc: see there.
#include "kernels/cpu/avx2/gemm_vec.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/unroll.h"
#include "kernels/gemm.h"
#include "kernels/isa.h"

namespace tutti::kernels {
namespace avxvnni_evex {
namespace {

constexpr bool kHasVnni = true;
inline __m256i DotBytes(__m256i sum, __m256i w, __m256i x) {
  return _mm256_dpbusd_epi32(sum, w, x);
}

#include "kernels/cpu/avx2/gemm_ymm.inc"

constexpr GemmKernels kTable = {"avxvnni-evex", false,     false,     RegisterTileRows,
                                QuantizeRange,  GemmRange, GateStored};

}  // namespace
}  // namespace avxvnni_evex

const GemmKernels& AvxVnniEvexGemmKernelsForTest() { return avxvnni_evex::kTable; }

}  // namespace tutti::kernels
