// The register tiles of AVX-512 VNNI: entry [rows - 1] of each table computes a tile of `rows`
// activation rows.
#pragma once

#include "kernels/cpu/gemm_tile.h"
#include "kernels/gemm.h"

namespace tutti::kernels::avx512vnni {

extern const TileKernel kTilesQ4_0[kMaxTile];
extern const TileKernel kTilesQ4_1[kMaxTile];
extern const TileKernel kTilesMXFP4[kMaxTile];
extern const TileKernel kTilesQ5_0[kMaxTile];
extern const TileKernel kTilesQ5_1[kMaxTile];
extern const TileKernel kTilesQ6[kMaxTile];
extern const TileKernel kTilesQ8_0[kMaxTile];
extern const TileKernel kTilesI8Row[kMaxTile];
extern const TileKernel kTilesBf16Pairs[kMaxTile];  // needs AVX512_BF16
extern const TileKernel kTilesUnpacked[kMaxTile];
extern const TileKernel kTilesUnpackedMin[kMaxTile];
extern const TileKernel kTilesUnpackedHalves[kMaxTile];
extern const TileKernel kTilesF32[kMaxTile];
extern const TileKernel kTilesF16[kMaxTile];
extern const TileKernel kTilesBf16[kMaxTile];

}  // namespace tutti::kernels::avx512vnni
