// Tiles of bfloat16 weights and activations: 32 weight rows (two zmm) x up to 8 activations, two
// products an instruction and lane (vdpbf16ps).
#include <immintrin.h>

#include "kernels/cpu/avx512vnni/gemm_tiles.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/unroll.h"

namespace tutti::kernels::avx512vnni {
namespace {

inline __m512bh LoadPairs(const uint8_t* w) {
  return reinterpret_cast<__m512bh>(_mm512_load_si512(w));
}

inline __m512bh BroadcastPair(const int8_t* x) {
  int32_t pair;
  __builtin_memcpy(&pair, x, sizeof pair);
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
}

template <int kRows>
__attribute__((noinline)) void Bf16Tile(const TileArgs& args) {
  const uint8_t* w = args.w;
  const int8_t* x = args.q;
  const uint8_t* prefetch = args.prefetch;
  const uint8_t* ahead = args.ahead;
  __m512 f0[kRows];
  __m512 f1[kRows];
  TUTTI_UNROLL(8)
  for (int m = 0; m < kRows; ++m) f0[m] = f1[m] = _mm512_setzero_ps();
  for (int32_t b = 0; b < args.blocks; ++b) {
    for (int pair = 0; pair < kQuantBlock / 2; ++pair, w += 128) {
      const __m512bh w0 = LoadPairs(w);
      const __m512bh w1 = LoadPairs(w + 64);
      TUTTI_UNROLL(8)
      for (int m = 0; m < kRows; ++m) {
        const __m512bh v = BroadcastPair(x + m * 64 + pair * 4);
        f0[m] = _mm512_dpbf16_ps(f0[m], w0, v);
        f1[m] = _mm512_dpbf16_ps(f1[m], w1, v);
      }
    }
    x += kRows * 64;
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

}  // namespace

const TileKernel kTilesBf16Pairs[kMaxTile] = {Bf16Tile<1>, Bf16Tile<2>, Bf16Tile<3>, Bf16Tile<4>,
                                              Bf16Tile<5>, Bf16Tile<6>, Bf16Tile<7>, Bf16Tile<8>};

}  // namespace tutti::kernels::avx512vnni
