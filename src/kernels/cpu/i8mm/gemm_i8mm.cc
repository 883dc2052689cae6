// The GEMM table of Arm's 8-bit matrix products: those of neondot with smmla where a tile has two
// rows or more.
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/neon/gemm_vec.h"
#include "kernels/cpu/unroll.h"
#include "kernels/gemm.h"
#include "kernels/isa.h"

namespace tutti::kernels {
namespace i8mm {
namespace {

constexpr bool kHasMatrix = true;
inline int32x4_t MultiplyPairs(int32x4_t sum, int8x16_t w, int8x16_t x) {
  return vmmlaq_s32(sum, w, x);
}

#include "kernels/cpu/neon/gemm_neon.inc"

constexpr GemmKernels kTable = {"i8mm",        false,     false,     RegisterTileRows,
                                QuantizeRange, GemmRange, GateStored};

}  // namespace
}  // namespace i8mm

const GemmKernels& I8mmGemmKernels() { return i8mm::kTable; }

}  // namespace tutti::kernels
