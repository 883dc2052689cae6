// `tutti bench constrained`: the cost of answers under a JSON schema, and the gain by forced tokens
// (R02 of docs/checks.md).
//
// Rates: the same prompts are answered freely and under a schema that fixes more than half of the
// text, in turn, at 1 and 8 sequences; each answer under the schema is parsed, and its members are
// checked. Masks: the time to compute a step's masks for 8 constrained sequences, whose texts the
// model wrote, on the model's vocabulary and on a synthetic one of 151,936 tokens. Gated: mask at
// p50 <= 100 us on either; ratio >= 1.5 at 1 sequence, >= 1.0 at 8.
#pragma once

#include "bench/report.h"
#include "bench/session.h"

namespace tutti::bench {

struct ConstrainedOptions {
  std::string model;
  Flags flags;
  std::vector<int> sequences = {1, 8};
  int free_tokens = 96;  // of an unconstrained answer
  int max_tokens = 256;  // of an answer under the schema, which needs about 80
  int rounds = 5;
  uint64_t seed = 1;
  size_t made_vocabulary = 151'936;
  bool calibrate = true;  // false: rounds count at any machine speed
  bool gated = true;      // false: figures and the check of the answers only
};

Result<Report> BenchConstrained(const ConstrainedOptions& options, const Progress& progress);

}  // namespace tutti::bench
