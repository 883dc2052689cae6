// The attention bench behind `tutti bench kernels`: decode and prefill over a paged cache, as plain
// rows.
//
// Every point first compares its answer with the scalar float oracle; a wrong kernel has no speed.
// Blocks lie one after the other, as prompts take them from a pool, and the cache is cycled through
// more memory than the caches hold, as a model's layers are. One unit of work is one layer. Thread:
// one caller; starts options.threads - 1 more. Errors: internal_error if an answer differs,
// kResourceExhausted if the cache does not fit. Time: about seconds_per_point for each point.
#pragma once

#include <vector>

#include "base/status.h"
#include "kernels/attention.h"
#include "kernels/machine_limits.h"

namespace tutti::kernels {

struct AttentionPoint {
  int32_t sequences;
  int32_t context;     // tokens in the cache before the step
  int32_t rows;        // new rows of each sequence: 1 is decode
  int32_t shared = 0;  // leading tokens that all sequences have in the same blocks
  int32_t chunk = 0;   // > 0: the rows are run as steps of this many, one after the other
};

struct AttentionBenchOptions {
  int threads = 1;
  // SmolLM2-135M.
  AttentionShape shape = {9, 3, 64, 0.125f, RopeMode::kNone, 64};
  KvFormat format = KvFormat::kF32;  // usually the table's native16
  std::vector<AttentionPoint> points = {{1, 511, 1},  {1, 2047, 1},        {8, 511, 1},
                                        {32, 511, 1}, {16, 1087, 1},       {16, 1087, 1, 1024},
                                        {1, 0, 512},  {1, 0, 512, 0, 128}, {1, 0, 2048}};
  size_t cold_bytes = size_t{160} << 20;  // 0: one layer, as hot as it gets
  double seconds_per_point = 0.15;
};

struct AttentionBenchRow {
  AttentionPoint point;
  int32_t items;          // of the (last) step's plan
  double seconds;         // of one layer, best of many
  double ops_per_s;       // multiplications and additions of visible (query, key) pairs / seconds
  double bytes_per_s;     // cache bytes of the visible keys, each sequence's counted once / seconds
  double append_seconds;  // rope_append of the same rows, without rotation, best of many
  double fraction_of_peak;  // of what the form's multiply allows: int8_ops_per_s / 2 for kI16, else
                            // float32
  double fraction_of_read;  // of limits.read_bytes_per_s
  double limit_ops_per_s;  // the roofline: min(peak, limits.read_bytes_per_s x operations per byte)
  std::vector<double> trial_s;  // seconds of one layer in each trial
};

Result<std::vector<AttentionBenchRow>> MeasureAttention(const AttentionKernels& kernels,
                                                        const MachineLimits& limits,
                                                        const AttentionBenchOptions& options);

}  // namespace tutti::kernels
