#include "engine/drafter.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tutti::engine {
namespace {

api::SamplingParams LikeliestToken() {
  api::SamplingParams params;
  params.temperature = 0;
  return params;
}

}  // namespace

void DraftState::Settle(std::span<const TokenId> tokens) {
  const auto size = static_cast<int>(tokens.size());
  int kept = std::min(confirmed, size);
  while (kept < std::min(known, size) &&
         tokens[static_cast<size_t>(kept)] == proposed[static_cast<size_t>(kept - confirmed)])
    ++kept;
  known = confirmed = std::min(kept, size - 1);
}

Drafter::Drafter(ModelRunner* runner)
    : runner_(*runner), limits_(runner->limits()), greedy_(LikeliestToken()) {
  CHECK(limits_.kv_blocks > 0 && limits_.max_step_slices >= kMaxDraftSequences);
  sampler_.params = &greedy_;
  for (int block = limits_.kv_blocks; block > 0; --block) free_.push_back(block - 1);
  plan_.slices.reserve(kMaxDraftSequences);
  planned_.reserve(kMaxDraftSequences);
}

DraftTimes Drafter::Run(std::span<DraftRequest> asks) {
  ++runs_;
  for (const DraftRequest& ask : asks) ask.sequence->draft.used_in = runs_;
  DraftTimes times;
  Read(asks, times);
  Propose(asks, times);
  return times;
}

void Drafter::Release(Sequence& s) {
  DraftState& draft = s.draft;
  if (draft.blocks.empty()) return;
  free_.insert(free_.end(), draft.blocks.rbegin(), draft.blocks.rend());
  draft.blocks.clear();
  draft.known = draft.confirmed = 0;
  std::erase(holders_, &s);
}

void Drafter::SwitchOff(Sequence& s) {
  Release(s);
  s.draft.on = false;
}

bool Drafter::Grow(Sequence& s, int tokens) {
  DraftState& draft = s.draft;
  const int missing = BlocksFor(tokens) - static_cast<int>(draft.blocks.size());
  const bool fits = tokens <= limits_.context;
  if (fits && missing <= 0) return true;
  while (fits && free_blocks() < missing && EvictOne()) {
  }
  if (!fits || free_blocks() < missing) {
    SwitchOff(s);  // without the missing blocks, reading further tokens would be wasted
    return false;
  }
  if (draft.blocks.empty()) holders_.push_back(&s);
  for (int i = 0; i < missing; ++i) {
    draft.blocks.push_back(free_.back());
    free_.pop_back();
  }
  return true;
}

bool Drafter::EvictOne() {
  Sequence* oldest = nullptr;
  for (Sequence* s : holders_) {
    if (s->draft.used_in != runs_ &&
        (oldest == nullptr || s->draft.used_in < oldest->draft.used_in))
      oldest = s;
  }
  if (oldest == nullptr) return false;
  Release(*oldest);
  return true;
}

void Drafter::AddSlice(const Sequence& s, std::span<const TokenId> tokens, int start, bool sample) {
  SequenceSlice slice;
  slice.sequence = s.id;
  slice.tokens = tokens;
  slice.start = start;
  slice.blocks = s.draft.blocks;
  slice.sample = sample;
  slice.sampler = sample ? &sampler_ : nullptr;
  plan_.slices.push_back(slice);
  plan_.tokens += static_cast<int>(tokens.size());
}

bool Drafter::RunPlan(Duration& took) {
  ++plan_.step;
  runner_.Launch(plan_);
  result_ = runner_.Collect();
  took += result_.forward;
  return result_.status.ok() && result_.slices.size() == plan_.slices.size();
}

void Drafter::Read(std::span<DraftRequest> asks, DraftTimes& times) {
  for (DraftRequest& ask : asks) {
    Sequence& s = *ask.sequence;
    const int count = std::min(ask.catch_up, limits_.max_step_tokens);
    if (count <= 0 || !Grow(s, s.draft.known + count)) continue;
    plan_.slices.clear();
    plan_.tokens = 0;
    const auto tokens = std::span<const TokenId>(s.tokens).subspan(
        static_cast<size_t>(s.draft.known), static_cast<size_t>(count));
    AddSlice(s, tokens, s.draft.known, /*sample=*/false);
    const bool ran = RunPlan(times.reading);
    if (ran) times.rows_read += count;
    if (ran && result_.slices[0].status.ok()) {
      s.draft.known = s.draft.confirmed = s.draft.known + count;
    } else {
      SwitchOff(s);
    }
    runner_.Recycle(std::move(result_));
  }
}

void Drafter::Propose(std::span<DraftRequest> asks, DraftTimes& times) {
  for (int pass = 0; pass < kMaxDrafts; ++pass) {
    plan_.slices.clear();
    plan_.tokens = 0;
    planned_.clear();
    for (DraftRequest& ask : asks) {
      Sequence& s = *ask.sequence;
      if (ask.wanted <= pass || ask.count != pass || !s.draft.on) continue;
      const auto size = static_cast<int>(s.tokens.size());
      if (pass == 0) {
        const int fresh = size - s.draft.known;
        if (plan_.tokens + fresh > limits_.max_step_tokens || !Grow(s, size + ask.wanted - 1))
          continue;
        AddSlice(s, std::span<const TokenId>(s.tokens).last(static_cast<size_t>(fresh)),
                 s.draft.known, /*sample=*/true);
      } else {
        AddSlice(s, {&ask.tokens[static_cast<size_t>(pass) - 1], 1}, size + pass - 1,
                 /*sample=*/true);
      }
      planned_.push_back(&ask);
    }
    if (planned_.empty()) return;
    if (pass == 0) times.sequences = static_cast<int>(planned_.size());
    const bool ran = RunPlan(times.proposing);
    ++times.passes;
    for (size_t i = 0; i < planned_.size(); ++i) {
      DraftRequest& ask = *planned_[i];
      DraftState& draft = ask.sequence->draft;
      if (!ran || !result_.slices[i].status.ok() || result_.slices[i].token < 0) {
        SwitchOff(*ask.sequence);
        continue;
      }
      const SliceResult& slice = result_.slices[i];
      // All but the last proposal are computed.
      draft.confirmed = static_cast<int>(ask.sequence->tokens.size());
      draft.known = draft.confirmed + pass;
      draft.proposed[static_cast<size_t>(pass)] = slice.token;
      ask.tokens[static_cast<size_t>(ask.count++)] = slice.token;
    }
    runner_.Recycle(std::move(result_));
    if (!ran) return;
  }
}

}  // namespace tutti::engine
