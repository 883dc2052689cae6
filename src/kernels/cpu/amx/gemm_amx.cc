// The GEMM table of AMX: bfloat16, and int8 with one scale per row of many rows, by the tile unit;
// everything else as AVX-512 VNNI.
#include "kernels/cpu/amx/tile_unit.h"
#include "kernels/cpu/avx512vnni/gemm_vec.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/unroll.h"
#include "kernels/gemm.h"
#include "kernels/isa.h"

namespace tutti::kernels {
namespace amx {
namespace {

const GemmKernels& VectorKernels() { return Avx512Bf16GemmKernels(); }

#include "kernels/cpu/amx/gemm_unit.inc"

constexpr GemmKernels kTable = {"amx", true, true, UnitTileRows, QuantizeRange, Gemm, GateStored};

}  // namespace
}  // namespace amx

const GemmKernels& AmxGemmKernels() { return amx::kTable; }

}  // namespace tutti::kernels
