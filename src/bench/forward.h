// `tutti bench engine`: prompts of random tokens straight into the engine: B of them prefilled,
// then decoded together.
//
// Every repeat of every batch runs the same prompts; sequence i must give the same tokens alone and
// beside any other, or the bench fails. Rates: prefill = B N / (time until every sequence has its
// first token); decode = B M / (time of the M tokens after it). TTFT is the median over the
// sequences of a repeat. Repeats that ran while the machine was below 90 % of its best calibration
// are run again, at most twice as many as asked; a row short of good ones says so.
//
// With `fusion` each repeat is run a second time with the layers one operation at a time over the
// same kernels (model/decoder.h), in turn: the same tokens, and how many times the speed. Decoders
// that are no mixtures and no packed files.
#pragma once

#include <functional>

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
  bool calibrate = true;    // false: repeats count whatever the machine's speed
  bool fusion = false;      // beside the layers one operation at a time
  double least_fusion = 0;  // ratio of decode of one sequence, else the bench fails; 0: no gate
};

// `progress` gets each row as it is known. Errors: loading, and requests that do not fit.
Result<Report> BenchForward(const ForwardOptions& options,
                            const std::function<void(const std::string&)>& progress);

}  // namespace tutti::bench
