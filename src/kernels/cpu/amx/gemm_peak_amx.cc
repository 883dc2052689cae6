// The peak loop of the tile unit: products of whole tiles, of the same two, into four sums.
#include "kernels/cpu/amx/tile_unit.h"
#include "kernels/cpu/gemm_peak.h"

namespace tutti::kernels {
namespace {

// Tiles 0 to 3 are sums, 4 and 5 are multiplied; all are zero.
void UseWholeTiles() {
  TileShapes shapes;
  for (int tile = 0; tile < 6; ++tile) {
    shapes.rows[tile] = 16;
    shapes.row_bytes[tile] = 64;
  }
  UseTiles(shapes);
}

}  // namespace

double AmxInt8Peak(int64_t rounds) {
  UseWholeTiles();
  for (int64_t round = 0; round < rounds; ++round) {
    MultiplyAddSignedUnsigned<0, 4, 5>();
    MultiplyAddSignedUnsigned<1, 4, 5>();
    MultiplyAddSignedUnsigned<2, 4, 5>();
    MultiplyAddSignedUnsigned<3, 4, 5>();
  }
  ReleaseTiles();
  return 2.0 * 4 * 16 * 16 * 64 * static_cast<double>(rounds);
}

double AmxBf16Peak(int64_t rounds) {
  UseWholeTiles();
  for (int64_t round = 0; round < rounds; ++round) {
    MultiplyAddBf16<0, 4, 5>();
    MultiplyAddBf16<1, 4, 5>();
    MultiplyAddBf16<2, 4, 5>();
    MultiplyAddBf16<3, 4, 5>();
  }
  ReleaseTiles();
  return 2.0 * 4 * 16 * 16 * 32 * static_cast<double>(rounds);
}

}  // namespace tutti::kernels
