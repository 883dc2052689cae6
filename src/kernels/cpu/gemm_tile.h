// TileArgs: what one register tile computes, passed between the driver and the tile kernels of one
// instruction set.
//
// Plain data and functions of an unnamed namespace, so that translation units with different
// instruction sets may share it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::kernels {

enum class PrefetchTo { kL1, kL2 };

// Sums of a block format's weights in bfloat16 are smaller by this (gemm.h).
inline constexpr float kWidenedSumScale = 256;

// What a code of kMXFP4 is multiplied as, less 16: twice the value of E2M1, and 16. So these
// weights are computed as those of kQ5_0.
constexpr uint8_t kE2M1Codes[16] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4};

// c[m][0..31] (+)= the panel's 32 rows times the activations of row m, for the tile's rows.
struct TileArgs {
  const uint8_t* w = nullptr;     // the panel's blocks, or the unpacked lines [block][8][128]
  const float* scales = nullptr;  // unpacked only: [block][d[32], m[32]]

  // Quantised formats: the tile's part of QuantizedRows, [block][row]; with one scale per row, d
  // and start are [row] and s is null; of bfloat16 q alone is set.
  const int8_t* q = nullptr;
  const float* d = nullptr;
  const float* s = nullptr;
  const int32_t* start = nullptr;  // of kQ6 two for each d, of the halves of its block

  // Float formats: row m at x + m * x_stride.
  const float* x = nullptr;
  size_t x_stride = 0;

  int32_t rows = 0;         // of activations; most kernels are compiled for one value
  int32_t blocks = 0;       // of 32 along K
  bool accumulate = false;  // start from c instead of zero
  float* c = nullptr;
  size_t c_stride = 0;

  const uint8_t* prefetch = nullptr;  // prefetch_lines x 64 bytes from here, per block
  int32_t prefetch_lines = 0;
  PrefetchTo prefetch_to = PrefetchTo::kL2;
  const uint8_t* ahead = nullptr;  // from a Prefetch: ahead_lines x 64 bytes for each block
  int32_t ahead_lines = 0;
};

using TileKernel = void (*)(const TileArgs& args);

}  // namespace tutti::kernels

// Software prefetch of the next panel, a few lines per block. In an unnamed namespace: each
// translation unit has its own.
namespace {

// Prefetches `lines` cache lines from `p` on into the cache level `to`.
inline void PrefetchLines(const uint8_t* p, int32_t lines, tutti::kernels::PrefetchTo to) {
  if (to == tutti::kernels::PrefetchTo::kL1) {
    for (int32_t i = 0; i < lines; ++i, p += 64) __builtin_prefetch(p, 0, 3);
  } else {
    for (int32_t i = 0; i < lines; ++i, p += 64) __builtin_prefetch(p, 0, 2);
  }
}

inline void PrefetchRange(const uint8_t* begin, size_t bytes) {
  PrefetchLines(begin, static_cast<int32_t>(bytes / 64), tutti::kernels::PrefetchTo::kL2);
}

}  // namespace
