// `tutti bench perplexity`: how well a model foretells a text, and how far that is from what the
// same model in another form foretells.
//
// The text's tokens are cut into windows that do not overlap; every token of a window but its first
// is scored by what stands before it there. Where the model's texts begin with a token of their own
// (BOS), so does every window, and all tokens of the text are scored. Perplexity = exp(-mean
// natural log-probability). Against a second model: the ratio of the perplexities, the mean of
// |difference of log-probabilities|, and in how many places both hold the same token the most
// probable. The second model keeps its cache in what its own arithmetic has by default (float32
// beside f32), whatever the first is asked to. It is loaded first and let go before the other:
// memory holds one at a time.
#pragma once

#include <functional>
#include <string>

#include "bench/report.h"
#include "bench/session.h"

namespace tutti::bench {

struct PerplexityOptions {
  std::string model;
  Flags flags;
  std::string text;       // path of a file of UTF-8 text
  std::string against;    // another model with the same vocabulary, or a dtype of this one; or ""
  int window = 512;       // tokens; at least 2
  int tokens = 10'000;    // of the text, at most
  double most_ratio = 0;  // of perplexities, else the bench fails; 0: no such gate
  double least_agreement = 0;  // percent, likewise
};

// `progress` gets each line as it is known. Errors: loading; model_path for the text;
// invalid_value for a text of fewer than two tokens, a window beyond the context or models whose
// tokens of the text differ.
Result<Report> BenchPerplexity(const PerplexityOptions& options,
                               const std::function<void(const std::string&)>& progress);

}  // namespace tutti::bench
