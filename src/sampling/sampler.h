// Sampling: from a row of logits to one token. Pure functions of (row, parameters, history,
// position); the random number is keyed by (seed, stream, position), so batch order, preemption and
// retries change nothing.
//
// Order of the chain: grammar / allowed / banned / min_tokens mask, logit_bias, penalties,
// temperature, top_k, top_p, min_p, draw. Equal logits rank by lowest id. Any thread; a
// SamplerScratch serves one at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "base/types.h"
#include "grammar/token_mask.h"

namespace tutti::sampling {

// All that decides the draw of one row. Owned by the sequence, which changes it only between steps;
// read by one compute thread during a step.
struct RowState {
  const api::SamplingParams* params = nullptr;  // immutable for the request's life
  std::span<const TokenId> prompt;              // for repetition_penalty
  std::span<const TokenId> output;              // tokens drawn so far, in order
  std::span<const TokenId> end_tokens;  // banned until min_tokens are there (eos and stop ids)
  uint64_t seed = 0;
  uint32_t stream = 0;  // choice index: choice i of n draws from (seed, i)
  // Tokens that the request's grammar allows at this position; null: all.
  const grammar::TokenMask* mask = nullptr;

  bool greedy() const { return params->temperature == 0.0; }
  // True when the token is the plain argmax of the raw logits and no log-probabilities are asked:
  // the runner may then fuse the argmax (lowest id wins) into the output head and never store the
  // row.
  bool plain_argmax() const;
};

struct TokenLogprob {
  TokenId token = kNoToken;
  float logprob = 0;
};

// Log-probabilities at one position, of the raw logits (before bias, penalties and temperature).
struct RowLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // most probable first; ties by lowest id
};

struct Draw {
  Status status;  // invalid_logit_mask when every token is masked; internal_error when the row is
                  // not finite
  TokenId token = kNoToken;
};

// Reusable scratch of one compute thread; grows to a few times the vocabulary and stays.
class SamplerScratch {
 public:
  struct Candidate {
    float logit = 0;
    TokenId token = kNoToken;
  };

  // Implementation detail of this folder.
  std::vector<float> block_max, block_sum, sorted_max, values, weights;
  std::vector<Candidate> candidates;
  std::vector<int32_t> counts;   // by token; zero between calls
  std::vector<TokenId> touched;  // tokens whose count is not zero
};

// The error of a sequence whose logits hold a NaN or an infinity: logits_not_finite.
Status LogitsNotFinite();

// Draws one token from logits[vocab]. `logits` is overwritten. Deterministic for equal inputs. Ids
// outside the row are ignored wherever they occur.
Draw SampleRow(std::span<float> logits, const RowState& state, SamplerScratch& scratch);

// Log-probabilities of `chosen`, of the `top` most probable tokens of a raw row, and then of the
// tokens `named` that are inside the row. Sums in a fixed order. A row that is not finite gives NaN
// for `chosen` and an empty list; the engine fails that sequence.
RowLogprobs RowLogprobsOf(std::span<const float> logits, TokenId chosen, int top,
                          SamplerScratch& scratch, std::span<const TokenId> named = {});

}  // namespace tutti::sampling
