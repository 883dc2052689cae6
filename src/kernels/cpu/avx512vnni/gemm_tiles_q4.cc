// Tiles of the four-bit formats.
#include <immintrin.h>

#include "kernels/cpu/avx512vnni/gemm_tiles.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/unroll.h"

namespace tutti::kernels::avx512vnni {
namespace {

#include "kernels/cpu/avx512vnni/gemm_tile_int8.inc"

}  // namespace

const TileKernel kTilesQ4_0[kMaxTile] = TUTTI_INT8_TILES(Packing::kNibbles, false);
const TileKernel kTilesQ4_1[kMaxTile] = TUTTI_INT8_TILES(Packing::kNibbles, true);
const TileKernel kTilesMXFP4[kMaxTile] = TUTTI_INT8_TILES(Packing::kE2M1, false);

}  // namespace tutti::kernels::avx512vnni
