// Tiles of the six-bit format, packed and unpacked.
#include <immintrin.h>

#include "kernels/cpu/avx512vnni/gemm_tiles.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/unroll.h"

namespace tutti::kernels::avx512vnni {
namespace {

#include "kernels/cpu/avx512vnni/gemm_tile_int8.inc"

}  // namespace

const TileKernel kTilesQ6[kMaxTile] = TUTTI_INT8_TILES(Packing::kSixBits, false);
const TileKernel kTilesUnpackedHalves[kMaxTile] = TUTTI_INT8_TILES(Packing::kUnpackedHalves, false);

}  // namespace tutti::kernels::avx512vnni
