// `tutti bench grpc`: embeds texts over gRPC, with several threads on one multiplexed channel; each
// sends its next call when the previous one has been answered (U03 of docs/checks.md).
//
// Definitions: encode_load.h. The bench fails if a call fails, if an answer differs from that of
// the same texts alone, or if the threads did not share one connection.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/encode_target.h"
#include "bench/report.h"

namespace tutti::bench {

struct GrpcLoadOptions {
  std::vector<int> levels = {1, 4, 8};  // threads
  int texts = 1, tokens = 16;           // of a call; of a text, about
  int requests = 500, warmup = 50;      // calls of each level
  double seconds = 0;                   // > 0: run for this time instead of `requests`
  uint64_t seed = 1;
};

Result<Report> BenchGrpc(GrpcTarget& target, const GrpcLoadOptions& options,
                         const std::function<void(const std::string&)>& progress);

}  // namespace tutti::bench
