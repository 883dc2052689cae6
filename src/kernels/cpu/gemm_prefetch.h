// Software prefetch of the next panel, a few lines per block. In an unnamed namespace: each
// translation unit has its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/gemm_tile.h"

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
