// `tutti bench perplexity`: perplexity of a model on a text, optionally compared with the same
// model in another format.
//
// The text's tokens are cut into windows that do not overlap; every token of a window but its first
// is scored given the tokens before it in the window. If the tokenizer adds a BOS token, every
// window begins with BOS, and all tokens of the text are scored. Perplexity = exp(-mean natural
// log-probability).
//
// Comparison with a second model: the ratio of the perplexities, the mean of |difference of
// log-probabilities|, and the share of positions where both models have the same most probable
// token. --kv-dtype applies to the first model only: the second keeps the default KV cache type of
// its own dtype (float32 for f32). The second model is loaded first and freed before the first
// model is loaded, so that memory holds one at a time.
#pragma once

#include <string>

#include "bench/report.h"
#include "bench/session.h"

namespace tutti::bench {

struct PerplexityOptions {
  std::string model;
  Flags flags;
  std::string text;      // path of a file of UTF-8 text
  std::string against;   // another model with the same vocabulary, or a dtype of this one; or empty
  int window = 512;      // tokens; at least 2
  int tokens = 10'000;   // of the text, at most
  double max_ratio = 0;  // maximum ratio of perplexities, else the bench fails; 0: no gate
  double least_agreement = 0;  // minimum percentage of equal tokens, else it fails; 0: no gate
};

// `progress` gets each line as it is known. Errors: loading; model_path for the text;
// invalid_value for a text of fewer than two tokens, a window beyond the context or models whose
// tokens of the text differ.
Result<Report> BenchPerplexity(const PerplexityOptions& options, const Progress& progress);

}  // namespace tutti::bench
