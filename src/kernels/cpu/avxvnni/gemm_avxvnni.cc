// The GEMM table of AVX-VNNI: the 256-bit kernels with vpdpbusd in its VEX encoding.
//
// gemm_avxvnni_evex_test.cc compiles the same text with the EVEX encoding of the same instruction,
// which is what the tests run on machines that have AVX-512 but not AVX-VNNI.
#include "kernels/cpu/avx2/gemm_vec.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/unroll.h"
#include "kernels/gemm.h"
#include "kernels/isa.h"

namespace tutti::kernels {
namespace avxvnni {
namespace {

constexpr bool kHasVnni = true;
inline __m256i DotBytes(__m256i sum, __m256i w, __m256i x) {
  return _mm256_dpbusd_avx_epi32(sum, w, x);
}

#include "kernels/cpu/avx2/gemm_ymm.inc"

constexpr GemmKernels kTable = {"avxvnni",     false,     false,     RegisterTileRows,
                                QuantizeRange, GemmRange, GateStored};

}  // namespace
}  // namespace avxvnni

const GemmKernels& AvxVnniGemmKernels() { return avxvnni::kTable; }

}  // namespace tutti::kernels
