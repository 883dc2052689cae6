// `tutti bench speculation`: gain and cost of speculative decoding (U75 of docs/checks.md): the
// same requests with and without draft tokens, in turn, on one build and one model. Draft tokens
// are copied from the text (prompt lookup), and with `draft` among the flags also come from that
// model.
//
// Three sets: `copy`, a passage that the model is led to repeat; `greedy` and `sampled`, the
// continuation of unrelated words, with no more repetition than the model's own. Per set and number
// of requests together: the ratio of the decode time without to that with, a ratio for each round,
// and their median. Different answers fail at any speed. Gated: copy at 1 request >= 1.3; every set
// at 8 >= 0.97.
#pragma once

#include "bench/report.h"
#include "bench/session.h"

namespace tutti::bench {

struct SpeculationOptions {
  std::string model;
  Flags flags;
  int new_tokens = 96;
  int passage_words = 120;  // of the passage; a third of it in the other sets
  std::vector<int> max_num_seqs = {1, 8};
  int rounds = 5;
  uint64_t seed = 1;
  bool calibrate = true;  // false: rounds count at any machine speed
  bool gated = true;      // false: figures and the equality verdict only
};

Result<Report> BenchSpeculation(const SpeculationOptions& options, const Progress& progress);

}  // namespace tutti::bench
