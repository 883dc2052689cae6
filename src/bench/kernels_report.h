// `tutti bench kernels`: products by format and row count, attention, and norm + quantise, each as
// GOPS, GB/s and a fraction of the limits measured in the same run. A kernel whose answer differs
// from the oracle's has no speed.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "bench/report.h"

namespace tutti::bench {

struct KernelsOptions {
  std::string isa;                   // as --isa of every command; empty: the best
  int threads = 0;                   // 0: the usable cores
  std::vector<std::string> formats;  // of products, as WeightFormatName has them; none: all
  bool quick = false;                // few points, little time: is everything there and right
};

Result<Report> BenchKernels(const KernelsOptions& options, const Progress& progress);

}  // namespace tutti::bench
