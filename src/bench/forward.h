// `tutti bench engine`: sends prompts of random tokens directly to the engine. B prompts are
// prefilled, then decoded together.
//
// Every repeat of every batch runs the same prompts; sequence i must give the same tokens alone as
// in any batch, or the bench fails. Rates: prefill = B N / (time until every sequence has its first
// token); decode = B M / (time of the M tokens after it). TTFT is the median over the sequences of
// a repeat. A repeat that ran while the machine was below 90 % of its best calibration is run
// again, with at most twice the requested number of repeats; a row with too few good repeats is
// marked.
//
// With `fusion` each repeat is run a second time with the layers executed one operation at a time
// over the same kernels (model/decoder.h), alternating with the fused run. Both must give the same
// tokens; the report has the ratio of the speeds. Not for mixtures of experts and packed files.
#pragma once

#include "bench/report.h"
#include "bench/session.h"

namespace tutti::bench {

struct ForwardOptions {
  std::string model;
  Flags flags;
  int prompt_tokens = 128;
  int new_tokens = 64;
  std::vector<int> batches = {1, 4, 8, 16, 32};
  int repeats = 3;
  uint64_t seed = 1;
  double slowdown = 0;      // share of each step's time that is added; see Session::SlowDown
  bool calibrate = true;    // false: repeats count at any speed of the machine
  bool fusion = false;      // compare with layers executed one operation at a time
  double least_fusion = 0;  // minimum decode speed-up at batch 1, else the bench fails; 0: no gate
};

// `progress` receives each row when it is complete. Errors: loading, and requests that do not fit.
Result<Report> BenchForward(const ForwardOptions& options, const Progress& progress);

}  // namespace tutti::bench
