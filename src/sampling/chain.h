// The parts of the sampling chain that edit a row of logits in place. Internal to this folder;
// pure.
#pragma once

#include <limits>
#include <span>

#include "sampling/sampler.h"

namespace tutti::sampling {

inline constexpr float kMasked = -std::numeric_limits<float>::infinity();

// Highest logit first, of equals the lowest id.
inline bool RanksBefore(const SamplerScratch::Candidate& a, const SamplerScratch::Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

// Masks with -infinity what may not be drawn: outside the grammar's mask and allowed_token_ids,
// banned_token_ids, and end tokens while fewer than min_tokens are there.
void ApplyMasks(std::span<float> logits, const RowState& state, SamplerScratch& scratch);

void ApplyBias(std::span<float> logits, const api::SamplingParams& params);

// Repetition penalty over prompt and output (positive logits are divided, others multiplied), then
// presence and frequency penalty over the output.
void ApplyPenalties(std::span<float> logits, const RowState& state, SamplerScratch& scratch);

// Fills scratch.candidates with the k highest logits, highest first, ties by lowest id; -infinity
// is left out. scratch.block_max must hold the row's block maxima.
void SelectTop(std::span<const float> logits, size_t k, SamplerScratch& scratch);

// Fills scratch.candidates with every logit >= floor, in order of id.
void SelectAbove(std::span<const float> logits, float floor, SamplerScratch& scratch);

}  // namespace tutti::sampling
