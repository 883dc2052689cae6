// `tutti bench knee`: the concurrency beyond which throughput no longer grows. Sweeps the
// concurrency in a closed loop, explains what saturates, and recommends the concurrency with the
// highest throughput whose p99 is within a limit, confirmed in a fresh run (U08, U09 of
// docs/checks.md).
#pragma once

#include <functional>
#include <vector>

#include "bench/encode_target.h"
#include "bench/report.h"

namespace tutti::bench {

struct KneeOptions {
  std::vector<int> levels = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};  // ascending
  int texts = 1, tokens = 16;
  int requests = 500, warmup = 50;  // of each level
  double p99_limit_ms = 0;          // 0: twice the p99 at the first level
  uint64_t seed = 1;
  bool gated = true;  // in flight within 10 % of throughput x latency; no loss past the knee
};

Result<Report> BenchKnee(EncodeTarget& target, const KneeOptions& options,
                         const std::function<void(const std::string&)>& progress);

}  // namespace tutti::bench
