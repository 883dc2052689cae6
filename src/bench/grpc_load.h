// `tutti bench grpc`: texts to vectors over gRPC, so many threads on one multiplexed channel, each
// sends its next call when the last has been answered (U03 of docs/checks.md).
//
// Definitions: encode_load.h. It fails when a call fails, when an answer differs from that of the
// same texts alone, or when the threads had not one connection between them.
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
  double seconds = 0;                   // > 0: as many calls as fit into so long instead
  uint64_t seed = 1;
};

Result<Report> BenchGrpc(GrpcTarget& target, const GrpcLoadOptions& options,
                         const std::function<void(const std::string&)>& progress);

}  // namespace tutti::bench
