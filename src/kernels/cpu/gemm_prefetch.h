// Software prefetch of the next panel, a few lines per block. In an unnamed namespace: each
// translation unit has its own.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/gemm_tile.h"

namespace {

// `lines` cache lines from `p` on, into the level the tile was told.
inline void PrefetchLines(const uint8_t* p, int32_t lines, tutti::kernels::PrefetchTo to) {
  const char* line = reinterpret_cast<const char*>(p);
  if (to == tutti::kernels::PrefetchTo::kL1) {
    for (int32_t i = 0; i < lines; ++i, line += 64) _mm_prefetch(line, _MM_HINT_T0);
  } else {
    for (int32_t i = 0; i < lines; ++i, line += 64) _mm_prefetch(line, _MM_HINT_T1);
  }
}

inline void PrefetchRange(const uint8_t* begin, size_t bytes) {
  PrefetchLines(begin, static_cast<int32_t>(bytes / 64), tutti::kernels::PrefetchTo::kL2);
}

}  // namespace
