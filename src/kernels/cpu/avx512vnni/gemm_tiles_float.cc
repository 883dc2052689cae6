// Tiles of the float formats: 32 weight rows (two zmm) x up to 8 activations, one FMA chain per
// output along K.
#include <immintrin.h>

#include "kernels/cpu/avx512vnni/gemm_tiles.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/unroll.h"

namespace tutti::kernels::avx512vnni {
namespace {

template <WeightFormat kFormat>
inline __m512 LoadWeights(const uint8_t* w) {
  if constexpr (kFormat == WeightFormat::kF32) return _mm512_load_ps(w);
  const __m256i halves = _mm256_load_si256(reinterpret_cast<const __m256i*>(w));
  if constexpr (kFormat == WeightFormat::kF16) return _mm512_cvtph_ps(halves);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

template <WeightFormat kFormat, int kRows>
__attribute__((noinline)) void FloatTile(const TileArgs& args) {
  constexpr int kVectorBytes = kFormat == WeightFormat::kF32 ? 64 : 32;
  const uint8_t* w = args.w;
  const uint8_t* prefetch = args.prefetch;
  const uint8_t* ahead = args.ahead;
  const float* x[kRows];
  __m512 f0[kRows];
  __m512 f1[kRows];
  TUTTI_UNROLL(8)
  for (int m = 0; m < kRows; ++m) {
    x[m] = args.x + static_cast<size_t>(m) * args.x_stride;
    f0[m] = f1[m] = _mm512_setzero_ps();
  }
  if (args.accumulate) {
    TUTTI_UNROLL(8)
    for (int m = 0; m < kRows; ++m) {
      f0[m] = _mm512_loadu_ps(args.c + static_cast<size_t>(m) * args.c_stride);
      f1[m] = _mm512_loadu_ps(args.c + static_cast<size_t>(m) * args.c_stride + 16);
    }
  }
  for (int32_t b = 0; b < args.blocks; ++b) {
    for (int k = 0; k < kQuantBlock; ++k) {
      const __m512 w0 = LoadWeights<kFormat>(w);
      const __m512 w1 = LoadWeights<kFormat>(w + kVectorBytes);
      w += 2 * kVectorBytes;
      TUTTI_UNROLL(8)
      for (int m = 0; m < kRows; ++m) {
        const __m512 v = _mm512_set1_ps(x[m][k]);
        f0[m] = _mm512_fmadd_ps(w0, v, f0[m]);
        f1[m] = _mm512_fmadd_ps(w1, v, f1[m]);
      }
    }
    TUTTI_UNROLL(8)
    for (int m = 0; m < kRows; ++m) x[m] += kQuantBlock;
    PrefetchLines(prefetch, args.prefetch_lines, args.prefetch_to);
    prefetch += args.prefetch_lines * 64;
    PrefetchLines(ahead, args.ahead_lines, PrefetchTo::kL2);
    ahead += args.ahead_lines * 64;
  }
  TUTTI_UNROLL(8)
  for (int m = 0; m < kRows; ++m) {
    _mm512_storeu_ps(args.c + static_cast<size_t>(m) * args.c_stride, f0[m]);
    _mm512_storeu_ps(args.c + static_cast<size_t>(m) * args.c_stride + 16, f1[m]);
  }
}

#define TUTTI_FLOAT_TILES(format)                                                              \
  {                                                                                            \
    FloatTile<format, 1>, FloatTile<format, 2>, FloatTile<format, 3>, FloatTile<format, 4>,    \
        FloatTile<format, 5>, FloatTile<format, 6>, FloatTile<format, 7>, FloatTile<format, 8> \
  }

}  // namespace

const TileKernel kTilesF32[kMaxTile] = TUTTI_FLOAT_TILES(WeightFormat::kF32);
const TileKernel kTilesF16[kMaxTile] = TUTTI_FLOAT_TILES(WeightFormat::kF16);
const TileKernel kTilesBf16[kMaxTile] = TUTTI_FLOAT_TILES(WeightFormat::kBf16);

}  // namespace tutti::kernels::avx512vnni
