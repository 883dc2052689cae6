// The GEMM bench behind `tutti bench kernels`: rates by format, shape and row count, as plain rows.
//
// Every point first compares its answer with the scalar oracle by bytes; a wrong kernel has no
// speed. Weights are cycled through more memory than the caches hold, as a model's layers are.
// Activations are quantised outside the timing. Thread: one caller; starts options.threads - 1
// more. Errors: internal_error if an answer differs, kResourceExhausted if the weights do not fit.
// Time: about seconds_per_point for each combination.
#pragma once

#include <vector>

#include "base/status.h"
#include "kernels/gemm.h"
#include "kernels/machine_limits.h"

namespace tutti::kernels {

struct GemmShape {
  int32_t n;  // weight rows
  int32_t k;  // weight columns
};

struct GemmBenchOptions {
  int threads = 1;
  std::vector<WeightFormat> formats = {
      WeightFormat::kQ4_0, WeightFormat::kQ4_1, WeightFormat::kMXFP4, WeightFormat::kQ5_0,
      WeightFormat::kQ5_1, WeightFormat::kQ6,   WeightFormat::kQ8_0,  WeightFormat::kI8Row,
      WeightFormat::kF32,  WeightFormat::kF16,  WeightFormat::kBf16,  WeightFormat::kBf16Pairs};
  // Formats that the table does not have are left out, and so are widths that rows of a format
  // cannot have.
  std::vector<GemmShape> shapes = {{1536, 576}, {2048, 2048}};
  std::vector<int32_t> rows = {1, 2, 4, 8, 16, 32, 64, 512};
  size_t cold_bytes =
      size_t{160} << 20;  // weights are cycled over so much; 0: one matrix, as hot as it gets
  double seconds_per_point = 0.15;
};

struct GemmBenchRow {
  WeightFormat format;
  GemmShape shape;
  int32_t rows;             // M
  double seconds;           // of one product, best of many
  double ops_per_s;         // 2 M N K / seconds
  double bytes_per_s;       // packed weights / seconds
  double fraction_of_peak;  // of limits.int8_ops_per_s, or float32_ops_per_s for float formats
  double fraction_of_read;  // of limits.read_bytes_per_s
  double limit_ops_per_s;  // the roofline: min(peak, limits.read_bytes_per_s x operations per byte)
  std::vector<double> trial_s;  // seconds of one product in each trial
};

Result<std::vector<GemmBenchRow>> MeasureGemm(const GemmKernels& kernels,
                                              const MachineLimits& limits,
                                              const GemmBenchOptions& options);

}  // namespace tutti::kernels
