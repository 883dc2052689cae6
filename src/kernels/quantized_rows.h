// Copying of quantised activations between matrices, for rows that several products read in
// different company: a mixture's experts.
//
// Pure functions over the caller's memory; any thread. Two workers may copy different rows into one
// matrix at the same time. Errors: none; shapes that differ are a bug of the caller.
#pragma once

#include "kernels/gemm.h"

namespace tutti::kernels {

// Copies row `from_row` of `from` to row `to_row` of `to`, whose tiling may differ. Both have the
// same columns and scales; neither has outliers.
void CopyQuantizedRow(const QuantizedRows& from, int32_t from_row, const QuantizedRows& to,
                      int32_t to_row);

}  // namespace tutti::kernels
