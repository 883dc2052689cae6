#include "sampling/chain.h"

#include <algorithm>
#include <limits>

#include "sampling/row_ops.h"

namespace tutti::sampling {
namespace {

bool InRow(std::span<const float> logits, TokenId id) {
  return id >= 0 && static_cast<size_t>(id) < logits.size();
}

// Counts `tokens` into scratch.counts, noting each token the first time.
void Count(std::span<const float> logits, std::span<const TokenId> tokens,
           SamplerScratch& scratch) {
  for (const TokenId id : tokens) {
    if (InRow(logits, id) && scratch.counts[static_cast<size_t>(id)]++ == 0)
      scratch.touched.push_back(id);
  }
}

void ForgetCounts(SamplerScratch& scratch) {
  for (const TokenId id : scratch.touched) scratch.counts[static_cast<size_t>(id)] = 0;
  scratch.touched.clear();
}

void ApplyMask(std::span<float> logits, const grammar::TokenMask& mask) {
  const std::vector<uint64_t>& words = mask.words();
  for (size_t begin = 0; begin < logits.size(); begin += 64) {
    const size_t end = std::min(begin + 64, logits.size());
    const uint64_t word = begin / 64 < words.size() ? words[begin / 64] : 0;
    if (word == ~uint64_t{0}) continue;
    if (word == 0) {
      std::fill(logits.begin() + static_cast<std::ptrdiff_t>(begin),
                logits.begin() + static_cast<std::ptrdiff_t>(end), kMasked);
      continue;
    }
    for (size_t i = begin; i < end; ++i) {
      if ((word >> (i - begin) & 1) == 0) logits[i] = kMasked;
    }
  }
}

}  // namespace

void ApplyMasks(std::span<float> logits, const RowState& state, SamplerScratch& scratch) {
  const api::SamplingParams& params = *state.params;
  if (state.mask != nullptr) ApplyMask(logits, *state.mask);
  if (!params.allowed_token_ids.empty()) {
    scratch.values.clear();
    for (const TokenId id : params.allowed_token_ids) {
      scratch.values.push_back(InRow(logits, id) ? logits[static_cast<size_t>(id)] : kMasked);
    }
    std::fill(logits.begin(), logits.end(), kMasked);
    for (size_t i = 0; i < params.allowed_token_ids.size(); ++i) {
      const TokenId id = params.allowed_token_ids[i];
      if (InRow(logits, id)) logits[static_cast<size_t>(id)] = scratch.values[i];
    }
  }
  for (const TokenId id : params.banned_token_ids) {
    if (InRow(logits, id)) logits[static_cast<size_t>(id)] = kMasked;
  }
  if (state.output.size() < static_cast<size_t>(std::max(params.min_tokens, 0))) {
    for (const TokenId id : state.end_tokens) {
      if (InRow(logits, id)) logits[static_cast<size_t>(id)] = kMasked;
    }
  }
}

void ApplyBias(std::span<float> logits, const api::SamplingParams& params) {
  for (const auto& [id, bias] : params.logit_bias) {
    if (InRow(logits, id)) logits[static_cast<size_t>(id)] += bias;
  }
}

void ApplyPenalties(std::span<float> logits, const RowState& state, SamplerScratch& scratch) {
  const api::SamplingParams& params = *state.params;
  // A penalty of almost nothing must leave numbers: no division by a float that became 0, and
  // nothing beyond what already decides alone.
  constexpr float kDecides = 1e15F;
  const auto repetition =
      std::max(static_cast<float>(params.repetition_penalty), std::numeric_limits<float>::min());
  const auto presence = static_cast<float>(params.presence_penalty);
  const auto frequency = static_cast<float>(params.frequency_penalty);
  if (scratch.counts.size() < logits.size()) scratch.counts.resize(logits.size(), 0);
  if (repetition != 1.0F) {
    Count(logits, state.prompt, scratch);
    Count(logits, state.output, scratch);
    for (const TokenId id : scratch.touched) {
      float& logit = logits[static_cast<size_t>(id)];
      logit = logit > 0 ? std::min(logit / repetition, kDecides) : logit * repetition;
    }
    ForgetCounts(scratch);
  }
  if (presence != 0.0F || frequency != 0.0F) {
    Count(logits, state.output, scratch);
    for (const TokenId id : scratch.touched) {
      const auto count = static_cast<float>(scratch.counts[static_cast<size_t>(id)]);
      logits[static_cast<size_t>(id)] -= frequency * count + presence;
    }
    ForgetCounts(scratch);
  }
}

void SelectTop(std::span<const float> logits, size_t k, SamplerScratch& scratch) {
  // At least k values reach the k-th largest block maximum, so nothing below it can be among the k
  // highest.
  float floor = std::numeric_limits<float>::lowest();
  if (k < scratch.block_max.size()) {
    scratch.sorted_max = scratch.block_max;
    const auto kth = scratch.sorted_max.begin() + static_cast<std::ptrdiff_t>(k) - 1;
    std::nth_element(scratch.sorted_max.begin(), kth, scratch.sorted_max.end(),
                     std::greater<float>());
    floor = std::max(*kth, floor);
  }
  SelectAbove(logits, floor, scratch);
  if (scratch.candidates.size() > k) {
    const auto end = scratch.candidates.begin() + static_cast<std::ptrdiff_t>(k);
    std::nth_element(scratch.candidates.begin(), end - 1, scratch.candidates.end(), RanksBefore);
    scratch.candidates.resize(k);
  }
  std::sort(scratch.candidates.begin(), scratch.candidates.end(), RanksBefore);
}

void SelectAbove(std::span<const float> logits, float floor, SamplerScratch& scratch) {
  scratch.candidates.clear();
  for (size_t b = 0; b < scratch.block_max.size(); ++b) {
    if (!(scratch.block_max[b] >= floor)) continue;
    const size_t end = std::min((b + 1) * kRowBlock, logits.size());
    for (size_t i = b * kRowBlock; i < end; ++i) {
      if (logits[i] >= floor) scratch.candidates.push_back({logits[i], static_cast<TokenId>(i)});
    }
  }
}

}  // namespace tutti::sampling
