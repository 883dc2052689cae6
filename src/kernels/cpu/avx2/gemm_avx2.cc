// The GEMM table of AVX2 without VNNI.
#include "kernels/cpu/avx2/gemm_vec.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/unroll.h"
#include "kernels/gemm.h"
#include "kernels/isa.h"

namespace tutti::kernels {
namespace avx2 {
namespace {

constexpr bool kHasVnni = false;
[[maybe_unused]] inline __m256i DotBytes(__m256i sum, __m256i, __m256i) { return sum; }

#include "kernels/cpu/avx2/gemm_ymm.inc"

constexpr GemmKernels kTable = {"avx2",        false,     false,     RegisterTileRows,
                                QuantizeRange, GemmRange, GateStored};

}  // namespace
}  // namespace avx2

const GemmKernels& Avx2GemmKernels() { return avx2::kTable; }

}  // namespace tutti::kernels
