#include "sampling/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <span>

#include "base/random.h"
#include "sampling/row_ops.h"

namespace tutti::sampling {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

// --- the parts of the sampling chain that edit a row of logits in place ---

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

// Masks with -infinity what may not be drawn: outside the grammar's mask and allowed_token_ids,
// banned_token_ids, and end tokens while fewer than min_tokens are there.
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

// Repetition penalty over prompt and output (positive logits are divided, others multiplied), then
// presence and frequency penalty over the output.
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

// --- candidates ---

// Highest logit first, of equals the lowest id.
bool RanksBefore(const SamplerScratch::Candidate& a, const SamplerScratch::Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

// Fills scratch.candidates with every logit >= floor, in order of id.
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

// Fills scratch.candidates with the k highest logits, highest first, ties by lowest id; -infinity
// is left out. scratch.block_max must hold the row's block maxima.
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

// Number of candidates that top_p examines first: nearly always enough, and cheap to select.
constexpr size_t kFirstCandidates = 256;

// 1 / temperature, bounded so that 0 * scale stays 0.
float ScaleOf(double temperature) { return static_cast<float>(std::min(1.0 / temperature, 1e30)); }

TokenId ArgMax(std::span<const float> logits, const SamplerScratch& scratch, float max) {
  const auto block = std::find(scratch.block_max.begin(), scratch.block_max.end(), max);
  const auto first = static_cast<size_t>(block - scratch.block_max.begin()) * kRowBlock;
  const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(first);
  return static_cast<TokenId>(first) +
         static_cast<TokenId>(std::find(begin, logits.end(), max) - begin);
}

// scratch.weights[i] = exp((logit - max) * scale) of candidate i.
void Weigh(float max, float scale, SamplerScratch& scratch) {
  const size_t count = scratch.candidates.size();
  scratch.values.resize(count);
  scratch.weights.resize(count);
  for (size_t i = 0; i < count; ++i) scratch.values[i] = scratch.candidates[i].logit;
  PickedRowOps().exp(scratch.values.data(), count, max, scale, scratch.weights.data());
}

// How many of the weights, highest first, it takes to reach `mass`; all when they do not.
size_t CountToMass(std::span<const float> weights, double mass, bool* reached) {
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    if (sum >= mass) {
      *reached = true;
      return i + 1;
    }
  }
  *reached = false;
  return weights.size();
}

// The candidate at `u` of the way through the weights of the first `count`.
TokenId Pick(const SamplerScratch& scratch, size_t count, double u) {
  double total = 0;
  for (size_t i = 0; i < count; ++i) total += scratch.weights[i];
  const double at = u * total;
  double sum = 0;
  TokenId last = scratch.candidates.front().token;
  for (size_t i = 0; i < count; ++i) {
    if (scratch.weights[i] == 0) continue;
    sum += scratch.weights[i];
    last = scratch.candidates[i].token;
    if (sum > at) break;
  }
  return last;
}

double Total(std::span<const float> block_sum) {
  double total = 0;
  for (const float sum : block_sum) total += sum;
  return total;
}

void SumBlocks(std::span<const float> logits, float max, float scale, SamplerScratch& scratch) {
  scratch.block_sum.resize(RowBlocks(logits.size()));
  PickedRowOps().block_exp_sum(logits.data(), logits.size(), max, scale, scratch.block_sum.data());
}

// A draw from the whole row, in order of id: first the block, then the token in it.
TokenId PickFromRow(std::span<const float> logits, float max, float scale, double u,
                    SamplerScratch& scratch) {
  SumBlocks(logits, max, scale, scratch);
  const double at = u * Total(scratch.block_sum);
  double sum = 0;
  size_t block = 0, last_block = 0;
  double before = 0;
  for (; block < scratch.block_sum.size(); ++block) {
    if (scratch.block_sum[block] == 0) continue;
    before = sum;
    last_block = block;
    sum += scratch.block_sum[block];
    if (sum > at) break;
  }
  const size_t begin = last_block * kRowBlock;
  const size_t count = std::min(kRowBlock, logits.size() - begin);
  scratch.candidates.clear();
  float weights[kRowBlock];
  PickedRowOps().exp(logits.data() + begin, count, max, scale, weights);
  TokenId last = kNoToken;
  sum = before;
  for (size_t i = 0; i < count; ++i) {
    if (weights[i] == 0) continue;
    sum += weights[i];
    last = static_cast<TokenId>(begin + i);
    if (sum > at) break;
  }
  return last;
}

// top_p over a flat row: weighs every token, finds by a histogram over the logits the band in which
// the mass is reached, and sorts only that band. Candidates above the band stand in order of id.
size_t SelectMassOfFlatRow(std::span<const float> logits, float max, float scale, double mass,
                           SamplerScratch& scratch) {
  constexpr size_t kBands = 1024;
  constexpr float kBandsPerUnit = static_cast<float>(kBands) / 88.0F;  // weights below e^-87 are 0
  const size_t vocab = logits.size();
  scratch.values.resize(vocab);
  PickedRowOps().exp(logits.data(), vocab, max, scale, scratch.values.data());
  const auto band_of = [&](size_t i) {
    const float depth = (max - logits[i]) * scale * kBandsPerUnit;
    return depth < static_cast<float>(kBands - 1) ? static_cast<size_t>(depth) : kBands - 1;
  };
  std::array<double, kBands> band_mass{};
  for (size_t i = 0; i < vocab; ++i)
    band_mass[band_of(i)] += static_cast<double>(scratch.values[i]);
  size_t band = 0;
  double above = 0;
  while (band + 1 < kBands && above + band_mass[band] < mass) above += band_mass[band++];

  scratch.candidates.clear();
  for (size_t i = 0; i < vocab; ++i) {
    if (scratch.values[i] > 0 && band_of(i) < band)
      scratch.candidates.push_back({logits[i], static_cast<TokenId>(i)});
  }
  const auto border = static_cast<std::ptrdiff_t>(scratch.candidates.size());
  for (size_t i = 0; i < vocab; ++i) {
    if (scratch.values[i] > 0 && band_of(i) == band)
      scratch.candidates.push_back({logits[i], static_cast<TokenId>(i)});
  }
  std::sort(scratch.candidates.begin() + border, scratch.candidates.end(), RanksBefore);
  Weigh(max, scale, scratch);
  bool reached = false;
  return CountToMass(scratch.weights, mass, &reached);
}

// Candidates of top_p over the whole row, with their weights. Returns how many count.
size_t SelectMass(std::span<const float> logits, float max, float scale, double top_p,
                  SamplerScratch& scratch) {
  SumBlocks(logits, max, scale, scratch);
  const double mass = top_p * Total(scratch.block_sum);
  SelectTop(logits, std::min(kFirstCandidates, logits.size()), scratch);
  Weigh(max, scale, scratch);
  bool reached = false;
  const size_t count = CountToMass(scratch.weights, mass, &reached);
  if (reached || logits.size() <= kFirstCandidates) return count;
  return SelectMassOfFlatRow(logits, max, scale, mass, scratch);
}

bool HasPenalties(const api::SamplingParams& params) {
  return params.repetition_penalty != 1.0 || params.presence_penalty != 0.0 ||
         params.frequency_penalty != 0.0;
}

}  // namespace

bool RowState::plain_argmax() const {
  return mask == nullptr && greedy() && params->logprobs < 0 && params->logit_bias.empty() &&
         params->allowed_token_ids.empty() && params->banned_token_ids.empty() &&
         !HasPenalties(*params) &&
         (end_tokens.empty() ||
          output.size() >= static_cast<size_t>(std::max(params->min_tokens, 0)));
}

Status LogitsNotFinite() {
  return {StatusCode::kInternal, "logits_not_finite",
          "the model produced logits that are not numbers for this sequence"};
}

// A constraint masks tokens too, so that the client's own lists may leave none of those it allows.
Status NoTokenAllowed(const api::SamplingParams& params) {
  Status status = InvalidArgument("invalid_logit_mask",
                                  "every token is masked; allow a token that may come next");
  if (!params.allowed_token_ids.empty()) return std::move(status).WithParam("allowed_token_ids");
  if (!params.banned_token_ids.empty()) return std::move(status).WithParam("banned_token_ids");
  return status;
}

Draw SampleRow(std::span<float> logits, const RowState& state, SamplerScratch& scratch) {
  const api::SamplingParams& params = *state.params;
  const RowOps& ops = PickedRowOps();
  ApplyMasks(logits, state, scratch);
  ApplyBias(logits, params);
  if (HasPenalties(params)) ApplyPenalties(logits, state, scratch);

  scratch.block_max.resize(RowBlocks(logits.size()));
  if (logits.empty() || !ops.block_max(logits.data(), logits.size(), scratch.block_max.data())) {
    return {LogitsNotFinite(), kNoToken};
  }
  const float max = *std::max_element(scratch.block_max.begin(), scratch.block_max.end());
  if (max == kMasked) return {NoTokenAllowed(params), kNoToken};
  if (state.greedy()) return {OkStatus(), ArgMax(logits, scratch, max)};

  const float scale = ScaleOf(params.temperature);
  const double u = UniformAt(state.seed, state.stream, state.output.size());
  const bool has_top_k = params.top_k > 0 && static_cast<size_t>(params.top_k) < logits.size();
  size_t count = 0;
  if (has_top_k) {
    SelectTop(logits, static_cast<size_t>(params.top_k), scratch);
    Weigh(max, scale, scratch);
    count = scratch.candidates.size();
    if (params.top_p < 1.0) {
      double total = 0;
      for (const float weight : scratch.weights) total += weight;
      bool reached = false;
      count = CountToMass(scratch.weights, params.top_p * total, &reached);
    }
  } else if (params.top_p < 1.0) {
    count = SelectMass(logits, max, scale, params.top_p, scratch);
  } else if (params.min_p > 0.0) {
    // A little below the floor, so that rounding cannot lose a token the exact test below would
    // keep.
    const double floor =
        static_cast<double>(max) + std::log(params.min_p) / static_cast<double>(scale);
    SelectAbove(logits, static_cast<float>(floor - 1e-3 * std::abs(floor) - 1e-3), scratch);
    Weigh(max, scale, scratch);
    count = scratch.candidates.size();
  } else {
    return {OkStatus(), PickFromRow(logits, max, scale, u, scratch)};
  }
  if (params.min_p > 0.0) {  // the most probable token weighs 1
    size_t kept = 0;
    for (size_t i = 0; i < count; ++i) {
      if (static_cast<double>(scratch.weights[i]) < params.min_p) continue;
      scratch.weights[kept] = scratch.weights[i];
      scratch.candidates[kept++] = scratch.candidates[i];
    }
    count = kept;
  }
  return {OkStatus(), Pick(scratch, count, u)};
}

RowLogprobs RowLogprobsOf(std::span<const float> logits, TokenId chosen, int top,
                          SamplerScratch& scratch, std::span<const TokenId> named) {
  RowLogprobs result;
  result.chosen = {chosen, std::numeric_limits<float>::quiet_NaN()};
  scratch.block_max.resize(RowBlocks(logits.size()));
  if (logits.empty() ||
      !PickedRowOps().block_max(logits.data(), logits.size(), scratch.block_max.data()))
    return result;
  const float max = *std::max_element(scratch.block_max.begin(), scratch.block_max.end());
  if (max == kMasked || chosen < 0 || static_cast<size_t>(chosen) >= logits.size()) return result;
  SumBlocks(logits, max, 1.0F, scratch);
  const double log_sum = std::log(Total(scratch.block_sum));
  const auto logprob = [&](float logit) {
    return static_cast<float>(static_cast<double>(logit) - static_cast<double>(max) - log_sum);
  };
  result.chosen.logprob = logprob(logits[static_cast<size_t>(chosen)]);
  if (top > 0) {
    SelectTop(logits, static_cast<size_t>(top), scratch);
    result.top.reserve(scratch.candidates.size());
    for (const auto& candidate : scratch.candidates)
      result.top.push_back({candidate.token, logprob(candidate.logit)});
  }
  for (const TokenId token : named) {
    if (token >= 0 && static_cast<size_t>(token) < logits.size())
      result.top.push_back({token, logprob(logits[static_cast<size_t>(token)])});
  }
  return result;
}

}  // namespace tutti::sampling
