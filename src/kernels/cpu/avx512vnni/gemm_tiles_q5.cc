// Tiles of the five-bit formats.
#include <immintrin.h>

#include "kernels/cpu/avx512vnni/gemm_tiles.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/unroll.h"

namespace tutti::kernels::avx512vnni {
namespace {

#include "kernels/cpu/avx512vnni/gemm_tile_int8.inc"

}  // namespace

const TileKernel kTilesQ5_0[kMaxTile] = TUTTI_INT8_TILES(Packing::kFiveBits, false);
const TileKernel kTilesQ5_1[kMaxTile] = TUTTI_INT8_TILES(Packing::kFiveBits, true);

}  // namespace tutti::kernels::avx512vnni
