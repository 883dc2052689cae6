// Tiles of int8 with one scale per weight row and one per activation row: 32 weight rows (two zmm)
// x up to 8 activations, integers to the end of K, so that the block holds nothing but vpdpbusd and
// its loads.
#include <immintrin.h>

#include "kernels/cpu/avx512vnni/gemm_tiles.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/unroll.h"

namespace tutti::kernels::avx512vnni {
namespace {

// Marks the accumulators as used, each in a register of its own. Otherwise GCC 12 shares those that
// start equal, copies half of them around every block and keeps one on the stack.
template <int kRows>
inline void KeepApart(__m512i (&i0)[kRows], __m512i (&i1)[kRows]) {
  TUTTI_UNROLL(8)
  for (int m = 0; m < kRows; ++m) {
    __asm__("" : "+v"(i0[m]));
    __asm__("" : "+v"(i1[m]));
  }
}

template <int kRows>
__attribute__((noinline)) void RowInt8Tile(const TileArgs& args) {
  const uint8_t* w = args.w;
  const int8_t* q = args.q;
  const uint8_t* prefetch = args.prefetch;
  const int32_t prefetch_lines = args.prefetch_lines;
  const uint8_t* ahead = args.ahead;
  __m512i i0[kRows];
  __m512i i1[kRows];
  TUTTI_UNROLL(8)
  for (int m = 0; m < kRows; ++m) i0[m] = i1[m] = _mm512_set1_epi32(args.start[m]);
  KeepApart<kRows>(i0, i1);
  for (int32_t b = 0; b < args.blocks; ++b) {
    TUTTI_UNROLL(8)
    for (int g = 0; g < 8; ++g) {
      const __m512i w0 = _mm512_load_si512(w + g * 128);
      const __m512i w1 = _mm512_load_si512(w + g * 128 + 64);
      TUTTI_UNROLL(8)
      for (int m = 0; m < kRows; ++m) {
        int32_t four;
        __builtin_memcpy(&four, q + m * 32 + g * 4, sizeof four);
        const __m512i x = _mm512_set1_epi32(four);
        i0[m] = _mm512_dpbusd_epi32(i0[m], w0, x);
        i1[m] = _mm512_dpbusd_epi32(i1[m], w1, x);
      }
    }
    KeepApart<kRows>(i0, i1);
    PrefetchLines(prefetch, prefetch_lines, args.prefetch_to);
    prefetch += prefetch_lines * 64;
    PrefetchLines(ahead, args.ahead_lines, PrefetchTo::kL2);
    ahead += args.ahead_lines * 64;
    w += 1024;
    q += kRows * 32;
  }
  const __m512 d0 = _mm512_load_ps(w);
  const __m512 d1 = _mm512_load_ps(w + 64);
  float* c = args.c;
  TUTTI_UNROLL(8)
  for (int m = 0; m < kRows; ++m, c += args.c_stride) {
    const __m512 dx = _mm512_set1_ps(args.d[m]);
    _mm512_storeu_ps(c, _mm512_mul_ps(_mm512_cvtepi32_ps(i0[m]), _mm512_mul_ps(d0, dx)));
    _mm512_storeu_ps(c + 16, _mm512_mul_ps(_mm512_cvtepi32_ps(i1[m]), _mm512_mul_ps(d1, dx)));
  }
}

}  // namespace

const TileKernel kTilesI8Row[kMaxTile] = {RowInt8Tile<1>, RowInt8Tile<2>, RowInt8Tile<3>,
                                          RowInt8Tile<4>, RowInt8Tile<5>, RowInt8Tile<6>,
                                          RowInt8Tile<7>, RowInt8Tile<8>};

}  // namespace tutti::kernels::avx512vnni
