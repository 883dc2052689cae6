// Passes over a whole row of logits, implemented for each instruction set; one implementation is
// selected when the process starts.
//
// Pure functions. Every variant does the same operations in the same order on 16 lanes, without
// fused multiply-add, so all give the same bits and the choice changes only the time.
#pragma once

#include <cstddef>

namespace tutti::sampling {

inline constexpr size_t kRowBlock = 64;  // values per block

inline constexpr size_t RowBlocks(size_t values) { return (values + kRowBlock - 1) / kRowBlock; }

struct RowOps {
  const char* name;
  // block_max[b] = maximum of block b. False when a value is NaN or +infinity (the maxima are then
  // useless).
  bool (*block_max)(const float* row, size_t values, float* block_max);
  // block_sum[b] = sum over block b of exp((x - max) * scale); max >= every x, scale > 0.
  void (*block_exp_sum)(const float* row, size_t values, float max, float scale, float* block_sum);
  // out[i] = exp((row[i] - max) * scale); below e^-87 it is 0.
  void (*exp)(const float* row, size_t values, float max, float scale, float* out);
};

// The fastest this processor can execute.
const RowOps& PickedRowOps();

// All that this build holds and this processor can execute, slowest first; for tests.
size_t AllRowOps(const RowOps* const** list);

}  // namespace tutti::sampling
