// `tutti bench decisions`: decisions a second in this process (R24 of docs/checks.md).
//
// Each client sends a call, waits for its answer and sends the next one. A call is the body of
// POST /v1/decisions: a text and one or more questions, each with the same number of labels. It is
// parsed, served by the gateway and written as JSON, so only the socket is missing. No two calls
// have the same text, but all have the beginning that the chat template writes, which the prefix
// cache keeps as it does in a server. A classifier computes a text once for all questions of a
// call, whose labels are its first ones. The answers of the first calls of each row must be, to the
// bit, those of the same call alone without the prefix cache.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/report.h"
#include "bench/session.h"

namespace tutti::bench {

inline constexpr int kMaxBenchLabels = 26;  // one letter each

struct DecisionsOptions {
  std::string model;
  Flags flags;
  int tokens = 64;                       // minimum length of a text
  int labels = 2;                        // labels of a question, 2 to kMaxBenchLabels
  std::vector<int> questions = {1, 16};  // questions in a call; one row each
  int clients = 8;
  int max_num_seqs = 32;
  int decisions = 512;  // minimum number in a row
  uint64_t seed = 1;
  bool calibrate = true;  // false: accepts the machine as it is
  double least_rate = 0;  // decisions a second of the best row; below it the bench fails; 0: none
};

// Errors: those of loading and of parsing; context_length_exceeded.
Result<Report> BenchDecisions(const DecisionsOptions& options, const Progress& progress);

}  // namespace tutti::bench
