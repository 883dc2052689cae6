// Sampling: from a row of logits to one token. Pure functions of (row, parameters, history, position); the
// random number is keyed by (seed, stream, position), so batch order, preemption and retries change nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "base/types.h"

namespace tutti::sampling {

// All that decides the draw of one row. Owned by the sequence, which changes it only between steps; read by
// one compute thread during a step.
struct RowState {
  const api::SamplingParams* params = nullptr;  // immutable for the request's life
  std::span<const TokenId> prompt;              // for repetition_penalty
  std::span<const TokenId> output;              // tokens drawn so far, in order
  std::span<const TokenId> end_tokens;          // banned until min_tokens are there (eos and stop ids)
  uint64_t seed = 0;
  uint32_t stream = 0;                          // choice index: choice i of n draws from (seed, i)

  bool greedy() const { return params->temperature == 0.0; }
  // True when the plain argmax of the raw logits is the answer: the runner may fuse it into the output head.
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
  Status status;  // no_token_allowed when every token is masked; internal_error when the row is not finite
  TokenId token = kNoToken;
};

// Reusable scratch of one compute thread.
class SamplerScratch;

// Draws one token from logits[vocab]. `logits` is overwritten. Deterministic for equal inputs.
Draw SampleRow(std::span<float> logits, const RowState& state, SamplerScratch& scratch);

// Log-probabilities of `chosen` and the `top` most probable tokens of a raw row. Sums in a fixed order.
RowLogprobs RowLogprobsOf(std::span<const float> logits, TokenId chosen, int top);

}  // namespace tutti::sampling
