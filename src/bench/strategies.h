// `tutti bench strategies`: gain by batching: blocking, interleaved and continuous batching on one
// build, one model and the same requests (U66, U67 and U70 of docs/checks.md).
//
// Per shape every strategy runs in turn, several rounds, medians. Ratios are continuous / blocking
// in total output tokens a second. A gate is the smaller of the stated figure and 85 % of what this
// machine's read rate and peaks allow for this file with prefill, attention and head counted.
// Unequal outputs fail at any speed.
#pragma once

#include "bench/report.h"
#include "bench/session.h"

namespace tutti::bench {

struct StrategyShape {
  int requests = 5, new_tokens = 30;
  double stated_ratio = 0;  // continuous / blocking; 0 = shown, not gated
};

struct StrategiesOptions {
  std::string model;
  Flags flags;
  std::vector<StrategyShape> shapes = {{1, 50, 0.95}, {3, 50, 2.4}, {10, 20, 4.0}, {5, 30, 0}};
  int rounds = 5;
  int max_num_seqs = 16;
  uint64_t seed = 1;
  bool calibrate = true;  // false: rounds count at any machine speed
  bool gated = true;  // false: figures and the equality verdict only (small machines under test)
};

Result<Report> BenchStrategies(const StrategiesOptions& options, const Progress& progress);

// Minimum time of `shape` at the machine's limits, with requests one at a time or all together.
double BlockingLimitSeconds(const ModelCost& cost, const kernels::MachineLimits& limits,
                            const StrategyShape& shape, int prompt_tokens);
double ContinuousLimitSeconds(const ModelCost& cost, const kernels::MachineLimits& limits,
                              const StrategyShape& shape, int prompt_tokens);

}  // namespace tutti::bench
