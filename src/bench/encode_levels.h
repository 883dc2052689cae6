// Benches that embed texts with concurrent clients in a closed loop, one level of concurrency after
// the other. Definitions: encode_load.h. Each fails if a request fails, or if an answer differs
// from that of the same texts alone.
#pragma once

#include <vector>

#include "bench/encode_target.h"
#include "bench/report.h"

namespace tutti::bench {

// `tutti bench encode`: levels in this process or at a server.
struct EncodeLevelsOptions {
  std::vector<int> levels = {1, 4, 8};  // clients
  int texts = 1, tokens = 16;           // of a request; of a text, about
  int requests = 500, warmup = 50;      // of each level
  uint64_t seed = 1;
};

Result<Report> BenchEncodeLevels(EncodeTarget& target, const EncodeLevelsOptions& options,
                                 const Progress& progress);

// `tutti bench knee`: the concurrency beyond which throughput no longer grows. Sweeps the
// concurrency in a closed loop, explains what saturates, and recommends the concurrency with the
// highest throughput whose p99 is within a limit, confirmed in a fresh run (U08, U09 of
// docs/checks.md).
struct KneeOptions {
  std::vector<int> levels = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};  // ascending
  int texts = 1, tokens = 16;
  int requests = 500, warmup = 50;  // of each level
  double p99_limit_ms = 0;          // 0: twice the p99 at the first level
  uint64_t seed = 1;
  bool gated = true;  // in flight within 10 % of throughput x latency; no loss past the knee
};

Result<Report> BenchKnee(EncodeTarget& target, const KneeOptions& options,
                         const Progress& progress);

// `tutti bench grpc`: embeds texts over gRPC, with several threads on one multiplexed channel; each
// sends its next call when the previous one has been answered (U03 of docs/checks.md). It also
// fails if the threads did not share one connection.
struct GrpcLoadOptions {
  std::vector<int> levels = {1, 4, 8};  // threads
  int texts = 1, tokens = 16;           // of a call; of a text, about
  int requests = 500, warmup = 50;      // calls of each level
  double seconds = 0;                   // > 0: run for this time instead of `requests`
  uint64_t seed = 1;
};

Result<Report> BenchGrpc(GrpcTarget& target, const GrpcLoadOptions& options,
                         const Progress& progress);

}  // namespace tutti::bench
