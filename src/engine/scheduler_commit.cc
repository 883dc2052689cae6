// Scheduler: from the result of a step to the progress of its sequences.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "engine/scheduler.h"

namespace tutti::engine {
namespace {

bool Contains(std::span<const TokenId> ids, TokenId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// Token of draw `i` of a slice with draft tokens.
TokenId DrawOf(const SliceResult& slice, int i) {
  return i == 0 ? slice.token : slice.more_tokens[static_cast<size_t>(i) - 1];
}
const sampling::RowLogprobs* LogprobsOf(const SliceResult& slice, int i) {
  if (i == 0) return slice.logprobs ? &*slice.logprobs : nullptr;
  const auto at = static_cast<size_t>(i) - 1;
  return at < slice.more_logprobs.size() ? &slice.more_logprobs[at] : nullptr;
}

}  // namespace

std::span<Outcome> Scheduler::Commit(StepResult& result, TimePoint /*now*/) {
  outcomes_.clear();
  accepted_.fill(0);
  Status whole = result.status;
  if (whole.ok() && !result.aborted && result.slices.size() != planned_.size()) {
    whole = Internal("the runner answered " + std::to_string(result.slices.size()) + " of " +
                     std::to_string(planned_.size()) + " slices");
  }
  if (whole.ok() && batch_only_) aborted_steps_ = result.aborted ? aborted_steps_ + 1 : 0;
  if (whole.ok() && result.aborted) {
    Rollback();
  } else if (!whole.ok()) {
    const bool alone = planned_.size() == 1;
    for (size_t i = 0; i < planned_.size(); ++i) {
      Sequence& s = *planned_[i].sequence;
      SetSuspect(s, true);
      if (alone)
        outcomes_.push_back({.sequence = &s, .kind = Outcome::Kind::kFailed, .status = whole});
    }
    Rollback();
  } else {
    if (!planned_.empty()) cost_.Observe(decode_rows_ + drafts_, prefill_tokens(), result.forward);
    if (prefill_tokens() == 0) speculation_.StepTook(decode_rows_, drafts_, result.forward);
    for (size_t i = 0; i < planned_.size(); ++i) CommitSlice(i, result.slices[i]);
    planned_.clear();
  }
  for (Outcome& failure : failures_) outcomes_.push_back(std::move(failure));
  failures_.clear();
  return outcomes_;
}

void Scheduler::CommitSlice(size_t i, SliceResult& slice) {
  Planned& planned = planned_[i];
  Sequence& s = *planned.sequence;
  const int drafts = plan_.slices[i].drafts;
  const int accepted = drafts > 0 ? CountAccepted(s, drafts, slice) : 0;
  if (planned.by_model && slice.status.ok()) speculation_.NoteModel(s, drafts, accepted);
  DropDrafts(s, drafts);
  const size_t first = outcomes_.size();
  outcomes_.resize(first + 1 + static_cast<size_t>(accepted));
  Outcome& outcome = outcomes_[first];
  outcome.sequence = &s;
  outcome.result = &slice;
  const auto fail = [&](Status status) {
    outcome.kind = Outcome::Kind::kFailed;
    outcome.status = std::move(status);
    planned.reservation.Return();
    if (planned.save != kv::kNoSlot) memory_.DropSave(planned.save);
    memory_.RemoveWindowBlocks(s, planned.window_blocks);
  };
  if (!slice.status.ok()) return fail(slice.status);
  if (planned.scores) {
    const int successors =
        std::min(planned.computed_after, s.prompt_tokens - 1) - (planned.score_from - 1);
    if (static_cast<int>(slice.prompt_logprobs.size()) != successors)
      return fail(Internal("prompt log-probabilities are missing"));
    for (const auto& logprobs : slice.prompt_logprobs) {
      if (!std::isfinite(logprobs.chosen.logprob))
        return fail(Internal("the model gave a value that is not finite"));
    }
  }
  const bool draws = plan_.slices[i].sample;
  if (draws && !IsToken(slice, 0)) {
    // Fails before the slice's blocks enter the prefix index: KV computed along with invalid logits
    // must not be reused by other sequences.
    return fail(Internal("the runner gave no valid token"));
  }
  if (draws && s.matcher) {
    if (!planned.constraint.ok()) return fail(planned.constraint);
    for (int k = 0; k <= accepted; ++k) {
      if (!s.matcher.Take(DrawOf(slice, k)))
        return fail(Internal("the runner drew a token that the grammar does not allow"));
    }
  }
  planned.reservation.Commit();
  memory_.DropCopy(s);
  // The KV of rejected draft tokens is overwritten by the next step.
  for (int k = 0; draws && k <= accepted; ++k) {
    s.tokens.push_back(DrawOf(slice, k));
    if (s.matcher) s.reasoning.Take(s.matcher.masker().trie().text(DrawOf(slice, k)));
  }
  s.computed = planned.computed_after + accepted;
  SetSuspect(s, false);
  memory_.IndexFull(s);
  memory_.CommitState(s, planned.save);
  memory_.FreeBehindWindow(s);
  if (planned.scores) {
    // A resumed sequence computes prompt tokens again whose log-probabilities were delivered.
    const int again = std::clamp(s.scored + 1 - planned.score_from, 0,
                                 static_cast<int>(slice.prompt_logprobs.size()));
    slice.prompt_logprobs.erase(slice.prompt_logprobs.begin(),
                                slice.prompt_logprobs.begin() + again);
    outcome.scored_from = planned.score_from + again;
    s.scored += static_cast<int>(slice.prompt_logprobs.size());
  }
  if (draws) {
    for (int k = 0; k <= accepted; ++k) {
      Outcome& drawn = outcomes_[first + static_cast<size_t>(k)];
      drawn.sequence = &s;
      drawn.kind = Outcome::Kind::kToken;
      drawn.token = DrawOf(slice, k);
      drawn.logprobs = LogprobsOf(slice, k);
      waiting_.Charge(s.tenant, kOutputTokenCost);
    }
    for (int k = 0; k < accepted; ++k) ++accepted_[static_cast<size_t>(k)];
    return EndAtToken(s, outcomes_.back());
  }
  if (s.request->score_only && s.computed >= s.wanted()) {
    outcome.ended = true;
    outcome.finish_reason = api::FinishReason::kLength;
  }
}

bool Scheduler::IsToken(const SliceResult& slice, int i) const {
  const sampling::RowLogprobs* logprobs = LogprobsOf(slice, i);
  const bool finite = logprobs == nullptr || std::isfinite(logprobs->chosen.logprob);
  const TokenId token = DrawOf(slice, i);
  return finite && token >= 0 && token < limits_.vocab_size;
}

int Scheduler::CountAccepted(const Sequence& s, int drafts, const SliceResult& slice) const {
  // If the request asks for log-probabilities, only draws that have them may be accepted.
  const bool reported = slice.logprobs.has_value();
  if (!slice.status.ok() || (reported && slice.more_logprobs.size() < static_cast<size_t>(drafts)))
    return 0;
  const size_t first = s.tokens.size() - static_cast<size_t>(drafts);
  int accepted = 0;
  while (accepted < drafts) {
    const TokenId drawn = DrawOf(slice, accepted);
    if (drawn != s.tokens[first + static_cast<size_t>(accepted)] || StopsAt(s, drawn) ||
        !IsToken(slice, accepted + 1))
      break;
    ++accepted;
  }
  return accepted;
}

bool Scheduler::StopsAt(const Sequence& s, TokenId token) const {
  const api::SamplingParams& params = s.request->sampling;
  return Contains(params.stop_token_ids, token) ||
         (!params.ignore_eos && Contains(s.request->end_tokens, token));
}

void Scheduler::EndAtToken(const Sequence& s, Outcome& outcome) const {
  outcome.named_stop = Contains(s.request->sampling.stop_token_ids, outcome.token);
  outcome.stop_token = StopsAt(s, outcome.token);
  // A grammar that is finished allows only an end token, so that no further step is needed.
  if (outcome.stop_token || (s.matcher && s.matcher.finished())) {
    outcome.ended = true;
    outcome.finish_reason = api::FinishReason::kStop;
  } else if (static_cast<int>(s.tokens.size()) >= s.target_tokens) {
    outcome.ended = true;
    outcome.finish_reason = api::FinishReason::kLength;
  }
}

}  // namespace tutti::engine
