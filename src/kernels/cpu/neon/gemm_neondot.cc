// The GEMM table of Armv8.2 with dot products.
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/neon/gemm_vec.h"
#include "kernels/cpu/unroll.h"
#include "kernels/gemm.h"
#include "kernels/isa.h"

namespace tutti::kernels {
namespace neondot {
namespace {

constexpr bool kHasMatrix = false;
[[maybe_unused]] inline int32x4_t MultiplyPairs(int32x4_t sum, int8x16_t, int8x16_t) { return sum; }

#include "kernels/cpu/neon/gemm_neon.inc"

constexpr GemmKernels kTable = {"neondot",     false,     false,     RegisterTileRows,
                                QuantizeRange, GemmRange, GateStored};

}  // namespace
}  // namespace neondot

const GemmKernels& NeonDotGemmKernels() { return neondot::kTable; }

}  // namespace tutti::kernels
