// The reference outputs of tests/golden and the model file they belong to, for the tests that need
// real weights.
//
// Everything here fails the running test when a file is missing: real-model tests do not skip.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/types.h"
#include "kernels/kernels.h"
#include "model/weights.h"

namespace tutti::parity {

// The default model as the kernels of `isa` read it, loaded once per mode and kept for the process.
std::shared_ptr<const model::Weights> TestWeights(model::WeightMode mode, kernels::Isa isa);

struct GreedyReference {
  std::vector<TokenId> prompt;
  std::vector<TokenId> tokens;  // the float32 continuation
  std::vector<float> margins;   // by how much the best logit led the second
};
std::vector<GreedyReference> ReadGreedyReferences();

struct ScoredToken {
  TokenId token = kNoToken;
  float logprob = 0;       // NaN for the first of a window
  TokenId top = kNoToken;  // the most probable token there
};
inline constexpr int kWindow = 512;
std::vector<ScoredToken> ReadScoredText();

// The first tokens of the scored text as one text of the model's whole context.
struct LongReference {
  struct Scored {
    int position = 0;        // in the text
    float logprob = 0;       // of the token there, given all before it
    TokenId top = kNoToken;  // the most probable one there
  };
  std::vector<Scored> scored;  // every 8th token
  double perplexity = 0;       // of all tokens but the first
};
LongReference ReadLongReference();

}  // namespace tutti::parity
