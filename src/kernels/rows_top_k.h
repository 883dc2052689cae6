// The exact selection behind RowKernels::top_k, around the two scans that each instruction set
// brings.
//
// Compiled once, for any machine. Pure; any thread. Cost: one scan of the row for block maxima, a
// selection among those, one scan of the blocks that can hold winners, a sort of k.
#pragma once

#include <cstdint>

#include "kernels/rows.h"

namespace tutti::kernels {

// maxima[b] = greatest of x[64b .. 64b+63]; -inf if all are NaN.
using BlockMaximaFunction = void (*)(const float* x, int32_t n, float* maxima);
// Writes {x[i], i} for begin <= i < end with x[i] >= threshold, ascending i; returns how many.
// `out` has room for end - begin + 15 (vector stores may run over).
using CollectFunction = int32_t (*)(const float* x, int32_t begin, int32_t end, float threshold,
                                    RowCandidate* out);

int32_t SelectTopK(const float* x, int32_t n, int32_t k, BlockMaximaFunction block_maxima,
                   CollectFunction collect, RowCandidate* out, void* scratch);

}  // namespace tutti::kernels
