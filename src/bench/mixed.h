// `tutti bench mixed`: streams of a chat model, first alone and then while short texts are embedded
// on the same device (N19 of docs/checks.md).
//
// Definitions: TTFT = time from sending to the first token; ITL = time between tokens of a stream.
// Texts are sent in an open loop, at a fixed rate independent of the server, and the latency of a
// text counts from its scheduled time.
#pragma once

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

Result<Report> BenchMixed(const MixedOptions& options, const Progress& progress);

}  // namespace tutti::bench
