// `tutti bench constrained`: what answers under a JSON schema cost, and what forced tokens bring
// (R02 of docs/checks.md).
//
// Rates: the same prompts answered freely and under a schema of which more than half of the text is
// fixed, in turn, at 1 and 8 sequences; each answer under the schema is parsed and its members are
// checked. Masks: the time of a step's masks for 8 constrained sequences, whose texts the model
// wrote, on the model's vocabulary and on a made one of 151,936 tokens. Gated: mask at p50 <= 100
// us on either; ratio >= 1.5 at 1 sequence, >= 1.0 at 8.
#pragma once

#include <functional>

#include "bench/report.h"
#include "bench/session.h"

namespace tutti::bench {

struct ConstrainedOptions {
  std::string model;
  Flags flags;
  std::vector<int> sequences = {1, 8};
  int free_tokens = 96;  // of an answer that nothing constrains
  int max_tokens = 256;  // of one under the schema, which needs some 80 of usual ones
  int rounds = 5;
  uint64_t seed = 1;
  size_t made_vocabulary = 151'936;
  bool calibrate = true;  // false: rounds count whatever the machine's speed
  bool gated = true;      // false: figures and the check of the answers only
};

Result<Report> BenchConstrained(const ConstrainedOptions& options,
                                const std::function<void(const std::string&)>& progress);

}  // namespace tutti::bench
