// The peak loop of the tile unit: products of whole tiles, of the same two, into four sums.
#include "kernels/cpu/amx/tile_unit.h"
#include "kernels/cpu/gemm_peak.h"

namespace tutti::kernels {

double AmxInt8Peak(int64_t rounds) {
  TileShapes shapes;
  for (int tile = 0; tile < 6; ++tile) {
    shapes.rows[tile] = 16;
    shapes.row_bytes[tile] = 64;
  }
  UseTiles(shapes);  // all zero
  for (int64_t round = 0; round < rounds; ++round) {
    MultiplyAdd<0, 4, 5>();
    MultiplyAdd<1, 4, 5>();
    MultiplyAdd<2, 4, 5>();
    MultiplyAdd<3, 4, 5>();
  }
  ReleaseTiles();
  return 2.0 * 4 * 16 * 16 * 64 * static_cast<double>(rounds);
}

}  // namespace tutti::kernels
