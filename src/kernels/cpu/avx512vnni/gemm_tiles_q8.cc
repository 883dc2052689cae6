// Tiles of Q8_0 and of unpacked panels.
#include <immintrin.h>

#include "kernels/cpu/avx512vnni/gemm_tiles.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/unroll.h"

namespace tutti::kernels::avx512vnni {
namespace {

#include "kernels/cpu/avx512vnni/gemm_tile_int8.inc"

}  // namespace

const TileKernel kTilesQ8_0[kMaxTile] = TUTTI_INT8_TILES(Packing::kBytes, false);
const TileKernel kTilesUnpacked[kMaxTile] = TUTTI_INT8_TILES(Packing::kUnpacked, false);
const TileKernel kTilesUnpackedMin[kMaxTile] = TUTTI_INT8_TILES(Packing::kUnpacked, true);

}  // namespace tutti::kernels::avx512vnni
