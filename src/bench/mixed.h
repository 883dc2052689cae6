// `tutti bench mixed`: streams of a chat model alone, and again beside short texts for an encoder
// on the same device (N19 of docs/checks.md).
//
// Definitions: TTFT = sent to first token; ITL = gaps between tokens of a stream; texts come in an
// open loop, at a fixed rate whatever the server does, and their latency counts from when they were
// due.
#pragma once

#include <functional>
#include <string>

#include "bench/report.h"
#include "bench/session.h"

namespace tutti::bench {

struct MixedOptions {
  std::string chat_model, encoder;  // arguments as of `tutti serve`
  Flags flags = {};
  int streams = 8, new_tokens = 64;
  double texts_per_s = 200;
  int tokens = 16;      // of a text
  double seconds = 20;  // of each half
  bool gated = true;    // p99 ITL and p50 TTFT <= 1.5 x alone, p99 of a text <= 50 ms
};

Result<Report> BenchMixed(const MixedOptions& options,
                          const std::function<void(const std::string&)>& progress);

}  // namespace tutti::bench
