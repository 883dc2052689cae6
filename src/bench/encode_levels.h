// `tutti bench encode`: embeds texts with concurrent clients in a closed loop, one level after the
// other, in this process or at a server.
//
// Definitions: encode_load.h. The bench fails if a request fails, or if an answer differs from that
// of the same texts alone.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/encode_target.h"
#include "bench/report.h"

namespace tutti::bench {

struct EncodeLevelsOptions {
  std::vector<int> levels = {1, 4, 8};  // clients
  int texts = 1, tokens = 16;           // of a request; of a text, about
  int requests = 500, warmup = 50;      // of each level
  uint64_t seed = 1;
};

Result<Report> BenchEncodeLevels(EncodeTarget& target, const EncodeLevelsOptions& options,
                                 const std::function<void(const std::string&)>& progress);

}  // namespace tutti::bench
