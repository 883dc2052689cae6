#include "engine/scheduler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "engine/policy/admission.h"
#include "engine/policy/order.h"

namespace tutti::engine {
namespace {

// Maximum number of waiting sequences that a plan passes over because they do not fit: bounds the
// work of a plan with a long queue.
constexpr size_t kSkipWindow = 64;

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

// Removes the draft tokens, which are at the end of the sequence's tokens while their step runs.
void DropDrafts(Sequence& s, int drafts) {
  if (drafts > 0) s.tokens.resize(s.tokens.size() - static_cast<size_t>(drafts));
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, const RunnerLimits& limits,
                     kv::KvBlockPool* pool, double draft_pass)
    : options_(options), limits_(limits), pool_(*pool), memory_(pool), speculation_(draft_pass) {
  const auto max_num_seqs = static_cast<size_t>(MaxNumSeqs(options));
  running_.reserve(max_num_seqs);
  turn_order_.reserve(max_num_seqs);
  shares_.reserve(max_num_seqs);
  plan_.slices.reserve(max_num_seqs);
  planned_.reserve(max_num_seqs);
  admitted_.reserve(max_num_seqs);
  preempted_.reserve(max_num_seqs);
  outcomes_.reserve(max_num_seqs + kMaxDraftRows);
}

// --- membership ---

void Scheduler::Add(Sequence& s, bool paused) {
  CHECK(s.state() == SequenceState::kWaiting);
  s.tenant = waiting_.JoinTenant(s.request->tenant, s.request->tenant_weight);
  if (options_.prefix_cache && s.request->use_prefix_cache) {
    s.root = pool_.index().AcquireRoot(s.request->tenant, s.request->cache_salt);
  }
  if (paused) {
    s.SetState(SequenceState::kPaused);
  } else {
    waiting_.Insert(s);
  }
}

void Scheduler::Pause(Sequence& s) {
  CHECK(planned_.empty()) << "pause inside a step";
  if (s.state() == SequenceState::kRunning) {
    EraseRunning(s);
    if (!s.blocks.empty() || s.copy_from != kv::kNoBlock) memory_.SetIdle(s, true);
  } else {
    waiting_.Remove(s);
  }
  // The pause may be long. A pinned sequence gets a new promise when it is admitted again.
  pool_.DropPromise(s.blocks);
  s.SetState(SequenceState::kPaused);
}

void Scheduler::Resume(Sequence& s) {
  s.SetState(SequenceState::kWaiting);
  s.refused_at.reset();
  waiting_.Insert(s);
}

void Scheduler::Finish(Sequence& s, bool keep_tail_for_reuse) {
  CHECK(planned_.empty()) << "a sequence leaves inside a step";
  switch (s.state()) {
    case SequenceState::kRunning:
      EraseRunning(s);
      break;
    case SequenceState::kWaiting:
      waiting_.Remove(s);
      break;
    case SequenceState::kPaused:
      break;
    case SequenceState::kFinished:
      CHECK(false) << "sequence " << s.id << " finishes twice";
  }
  memory_.SetIdle(s, false);
  SetSuspect(s, false);
  memory_.Release(s, keep_tail_for_reuse);
  if (s.root != kv::kNoRoot) pool_.index().ReleaseRoot(std::exchange(s.root, kv::kNoRoot));
  waiting_.LeaveTenant(s.tenant);
  s.SetState(SequenceState::kFinished);
}

void Scheduler::InsertRunning(Sequence& s) {
  const auto at = std::upper_bound(running_.begin(), running_.end(), &s,
                                   [](const Sequence* a, const Sequence* b) {
                                     return KeepsBefore(KeepKeyOf(*a), KeepKeyOf(*b));
                                   });
  running_.insert(at, &s);
}

void Scheduler::EraseRunning(Sequence& s) {
  running_.erase(std::find(running_.begin(), running_.end(), &s));
}

void Scheduler::SetSuspect(Sequence& s, bool suspect) {
  suspects_ += static_cast<int>(suspect) - static_cast<int>(s.suspect);
  s.suspect = suspect;
}

// --- planning ---

const StepPlan& Scheduler::Plan(TimePoint now) {
  Rollback();
  plan_.step = ++step_;
  plan_.copies.clear();
  plan_.slices.clear();
  plan_.tokens = 0;
  plan_.abortable = false;
  decode_rows_ = 0;
  drafts_ = 0;
  admitted_.clear();
  preempted_.clear();
  failures_.clear();
  speculation_.Begin();

  if (suspects_ > 0) {
    PlanSuspect();
    if (!plan_.slices.empty() || !failures_.empty()) return plan_;
  }
  if (!SharedForward(options_.strategy)) {
    PlanAdmissions(now, /*with_slices=*/false);
    PlanTurn();
  } else {
    PreemptForWaiting(now);
    const size_t for_waiting = preempted_.size();
    yielding_ = HasInteractivePrefill(now);
    batch_only_ = !yielding_ && BatchOnly(now);
    PlanDecodes();
    PlanPrefills();
    if (preempted_.size() == for_waiting) PlanAdmissions(now, /*with_slices=*/true);
    if (std::exchange(yielding_, false) && plan_.slices.empty() && failures_.empty()) {
      // The interactive prompt got no blocks, so that batch sequences need not skip this step.
      PlanDecodes();
      PlanPrefills();
    }
  }
  // No sequence got a slice: all running sequences wait for each other's blocks. Preempt the last
  // in the order of keeping blocks until one fits.
  while (plan_.slices.empty() && failures_.empty() && !running_.empty()) {
    Sequence& last = *running_.back();
    if (running_.size() == 1) {
      // The only running sequence does not fit although all other blocks were reclaimed. Requests
      // that cannot fit are refused at submission, so blocks are missing because of a fault
      // elsewhere. The sequence fails rather than waits forever.
      failures_.push_back(
          {.sequence = &last,
           .kind = Outcome::Kind::kFailed,
           .status =
               Unavailable("kv_exhausted", "no KV block is left for the only running sequence")});
      break;
    }
    Preempt(last);
    if (SharedForward(options_.strategy)) {
      PlanDecodes();
      PlanPrefills();
    } else {
      PlanTurn();
    }
  }
  PlanDrafts();
  // BatchOnly() did not see the sequences that this plan admitted; they may be of a higher class.
  plan_.abortable = batch_only_ && given_up_ < kMaxGivenUp &&
                    std::all_of(planned_.begin(), planned_.end(), [](const Planned& planned) {
                      return planned.sequence->request->priority == api::Priority::kBatch;
                    });
  return plan_;
}

void Scheduler::Rollback() {
  // Destroying a reservation returns its blocks; blocks go back in the reverse order.
  while (!planned_.empty()) {
    DropDrafts(*planned_.back().sequence, plan_.slices[planned_.size() - 1].drafts);
    planned_.pop_back();
  }
}

void Scheduler::PlanSuspect() {
  // Iterates over a copy: AddSlice may preempt, which removes sequences from running_.
  turn_order_.assign(running_.begin(), running_.end());
  for (Sequence* s : turn_order_) {
    if (!s->suspect || s->state() != SequenceState::kRunning) continue;
    if (AddSlice(*s, std::min(options_.prefill_chunk, TokensLeft()), /*may_preempt=*/true)) return;
    if (!failures_.empty()) return;
  }
}

void Scheduler::PlanTurn() {
  // Round robin: the sequence whose last turn is longest ago; new sequences had none.
  std::vector<Sequence*>& order = turn_order_;
  order.assign(running_.begin(), running_.end());
  std::stable_sort(order.begin(), order.end(), [](const Sequence* a, const Sequence* b) {
    return a->last_turn < b->last_turn;
  });
  for (Sequence* s : order) {
    if (s->state() != SequenceState::kRunning) continue;  // preempted for one before it
    if (AddSlice(*s, ChunkBudget(), /*may_preempt=*/true) || !failures_.empty()) return;
  }
}

void Scheduler::PlanDecodes() {
  // In the order of keeping blocks: a sequence preempted here comes later, so has no slice yet.
  for (size_t i = 0; i < running_.size();) {
    Sequence& s = *running_[i];
    if (!s.decoding() || s.planned_in == step_ || SkipsThisStep(s)) {
      ++i;
      continue;
    }
    if (!SlicesLeft() || TokensLeft() < 1) return;
    if (!AddSlice(s, 1, /*may_preempt=*/true) && failures_.empty() && running_.size() > 1) {
      Preempt(s);  // no later sequence has blocks that could be taken
      continue;
    }
    ++i;
  }
}

bool Scheduler::HasInteractivePrefill(TimePoint now) {
  const auto hasty = [](const Sequence& s) {
    return s.request->priority == api::Priority::kInteractive;
  };
  const auto batch = std::count_if(running_.begin(), running_.end(), [](const Sequence* s) {
    return s->request->priority == api::Priority::kBatch;
  });
  if (2 * batch <= running()) return false;  // a few rows among others cost little
  for (const Sequence* s : running_) {
    if (!s->decoding() && hasty(*s)) return true;
  }
  if (waiting_.size() == 0 || running() >= MaxNumSeqs(options_)) return false;
  return hasty(*WaitingQueue::Scan(waiting_, now, options_.priority_aging).Next());
}

bool Scheduler::BatchOnly(TimePoint now) {
  const auto batch = [](const Sequence* s) {
    return s->request->priority == api::Priority::kBatch;
  };
  if (!running_.empty()) return std::all_of(running_.begin(), running_.end(), batch);
  return waiting_.size() > 0 &&
         batch(WaitingQueue::Scan(waiting_, now, options_.priority_aging).Next());
}

void Scheduler::PlanDrafts() {
  // Interleaved sequences get one token each in turn, so none may draft.
  if (options_.strategy == Strategy::kInterleaved) return;
  if (decode_rows_ == 0 || decode_rows_ > kMaxDraftSequences || prefill_tokens() > 0) return;
  // Tokens that a grammar forces are drafted even if speculation is off: they are nearly always
  // accepted.
  const auto forced = [&](const Planned& planned) {
    return options_.propose_forced && planned.sequence->matcher;
  };
  if (!options_.speculate && std::none_of(planned_.begin(), planned_.end(), forced)) return;
  for (int i = 0; i < decode_rows_; ++i) {
    Sequence& s = *planned_[static_cast<size_t>(i)].sequence;
    // The last token of a sequence is drawn and never computed.
    const int most = std::min(s.blocks.size() * kBlockTokens, s.target_tokens - 1);
    speculation_.Add(s, std::clamp(most - static_cast<int>(s.tokens.size()), 0, kMaxDrafts),
                     options_.propose_forced);
  }
  speculation_.Choose(TokensLeft());
  for (int i = 0; i < decode_rows_; ++i) {
    AddDrafts(static_cast<size_t>(i), speculation_.AppendCopied(i));
  }
}

void Scheduler::KeepDrafts(size_t i, int count) {
  Sequence& s = *planned_[i].sequence;
  SequenceSlice& slice = plan_.slices[i];
  const int dropped = slice.drafts - count;
  DropDrafts(s, dropped);
  slice.tokens = slice.tokens.first(slice.tokens.size() - static_cast<size_t>(dropped));
  slice.drafts = count;
  s.sampler.output =
      std::span<const TokenId>(s.tokens).subspan(static_cast<size_t>(s.prompt_tokens));
  plan_.tokens -= dropped;
  drafts_ -= dropped;
}

void Scheduler::Constrain() {
  masks_.clear();
  for (size_t i = 0; i < planned_.size(); ++i) {
    const Sequence& s = *planned_[i].sequence;
    SequenceSlice& slice = plan_.slices[i];
    if (!s.matcher || !slice.sample) continue;
    grammar::TokenMasker& masker = s.matcher.masker();
    masker.Trim();
    if (slice.drafts >= s.reasoning.Unchecked()) KeepDrafts(i, s.reasoning.Unchecked() - 1);
    if (const TokenId forced = s.reasoning.Forced(); forced != kNoToken) {
      auto only = std::make_shared<grammar::TokenMask>(masker.trie().vocabulary());
      only->Allow(forced);
      slice.masks[0] = only.get();
      masks_.push_back(std::move(only));
      continue;
    }
    grammar::SetId state = s.matcher.state();
    const size_t first_draft = s.tokens.size() - static_cast<size_t>(slice.drafts);
    for (int k = 0; k <= slice.drafts; ++k) {
      std::shared_ptr<const grammar::TokenMask> mask =
          masker.Mask(state, /*ends=*/!s.request->sampling.ignore_eos);
      if (mask == nullptr) {
        if (k == 0) {
          planned_[i].constraint =
              InvalidArgument("grammar_too_complex",
                              "grammar is too ambiguous at this point of the answer; simplify it");
        }
        KeepDrafts(i, std::max(k - 1, 0));
        break;
      }
      slice.masks[static_cast<size_t>(k)] = mask.get();
      masks_.push_back(std::move(mask));
      if (k == slice.drafts) break;
      state = masker.Next(state, s.tokens[first_draft + static_cast<size_t>(k)]);
      if (state == grammar::StateSets::kDead || masker.finished(state)) {
        KeepDrafts(i, k);
        break;
      }
    }
  }
}

void Scheduler::TakeDrafts(const DraftTimes& times) {
  speculation_.ModelRan(times);
  for (const DraftRequest& ask : speculation_.asks()) {
    Sequence& s = *ask.sequence;
    int take = 0;
    for (; take < ask.count; ++take) {
      const TokenId token = ask.tokens[static_cast<size_t>(take)];
      // A stop token is not drafted: no token follows it, and the draw before it finds it anyway.
      if (token >= limits_.vocab_size || StopsAt(s, token)) break;
      s.tokens.push_back(token);
    }
    AddDrafts(static_cast<size_t>(ask.row), take);
    planned_[static_cast<size_t>(ask.row)].by_model = take > 0;
  }
}

void Scheduler::AddDrafts(size_t i, int count) {
  if (count == 0) return;
  Sequence& s = *planned_[i].sequence;
  SequenceSlice& slice = plan_.slices[i];
  // `tokens` has capacity for the whole sequence, so that spans into it stay valid.
  slice.tokens = std::span<const TokenId>(s.tokens).subspan(static_cast<size_t>(slice.start));
  slice.drafts = count;
  s.sampler.output =
      std::span<const TokenId>(s.tokens).subspan(static_cast<size_t>(s.prompt_tokens));
  plan_.tokens += count;
  drafts_ += count;
}

int Scheduler::ChunkBudget() const {
  const int decoding =
      SharedForward(options_.strategy)
          ? decode_rows_
          : static_cast<int>(std::count_if(running_.begin(), running_.end(),
                                           [](const Sequence* s) { return s->decoding(); }));
  ChunkInputs in;
  in.decode_rows = decoding;
  in.longest_chunk =
      std::min(decoding > 0 ? options_.prefill_chunk : std::max(options_.prefill_chunk_alone, 1),
               TokensLeft());
  in.decode_time = cost_.Decode(decoding);
  in.per_token = cost_.PerPrefillToken();
  in.itl_target = options_.itl_target;
  // Where decoding alone comes near the limit, a step still needs room for prompts: without it they
  // took ten times as long, while the other model's texts gained only a few milliseconds.
  if (contended_) in.step_limit = std::max(options_.contended_step, in.decode_time * 5 / 2);
  if (batch_only_)
    in.step_limit = contended_ ? std::min(in.step_limit, options_.batch_step) : options_.batch_step;
  return PrefillChunk(in);
}

void Scheduler::PlanPrefills() {
  int budget = ChunkBudget() - (plan_.tokens - decode_rows_);
  const auto prefills = [&](const Sequence& s) {
    return !s.decoding() && s.planned_in != step_ && !SkipsThisStep(s);
  };
  turn_order_.clear();
  shares_.clear();
  for (Sequence* s : running_) {
    if (!prefills(*s)) continue;
    turn_order_.push_back(s);
    shares_.push_back(s->wanted() - s->reached());
  }
  const bool admits =
      running() < MaxNumSeqs(options_) && options_.strategy == Strategy::kContinuous;
  ShareChunk(std::max(budget, 0), shares_, admits ? waiting_.ShortestFirst() : 0);
  int unused = 0;  // tokens that the prompt before left of its share, for lack of blocks
  for (size_t i = 0; i < turn_order_.size() && SlicesLeft(); ++i) {
    Sequence& s = *turn_order_[i];
    if (s.state() != SequenceState::kRunning) continue;  // preempted for one before it
    const int share = shares_[i] + unused;
    const int before = plan_.tokens;
    AddSlice(s, share, /*may_preempt=*/true);
    unused = share - (plan_.tokens - before);
  }
}

bool Scheduler::AddSlice(Sequence& s, int budget, bool may_preempt) {
  const int start = s.reached();
  int count = std::min(s.wanted() - start, budget);
  if (count <= 0) return false;
  const bool scores = s.scoring() && start < s.prompt_tokens;
  if (scores)
    count = std::min(count, s.prompt_tokens - start);  // the recomputed output is not scored

  int needed = BlocksFor(start + count) - s.blocks.size();
  if (needed > 0 && !MakeRoom(s, needed, may_preempt)) {
    if (s.copy_from != kv::kNoBlock) {  // its source may be the very block that is missing
      memory_.DropCopy(s);
      return AddSlice(s, budget, may_preempt);
    }
    // A prefill chunk shrinks to the blocks that are available.
    const int got = std::max(0, s.blocks.promised() + pool_.available());
    count = std::min(count, (s.blocks.size() + got) * kBlockTokens - start);
    if (count <= 0) return false;
    needed = BlocksFor(start + count) - s.blocks.size();
  }
  const bool copies = s.copy_from != kv::kNoBlock;
  Planned planned;
  if (needed > 0) {
    const int first_new = s.blocks.size();
    Result<kv::KvReservation> reservation = pool_.Reserve(s.blocks, needed, s.id);
    if (!reservation.ok()) {
      failures_.push_back({.sequence = &s,
                           .kind = Outcome::Kind::kFailed,
                           .status = std::move(reservation).status()});
      return false;
    }
    planned.reservation = *std::move(reservation);
    if (copies) plan_.copies.push_back({s.copy_from, s.blocks[first_new]});
  }
  s.sampler.output =
      std::span<const TokenId>(s.tokens).subspan(static_cast<size_t>(s.prompt_tokens));
  SequenceSlice slice;
  slice.sequence = s.id;
  slice.tokens = std::span<const TokenId>(s.tokens).subspan(static_cast<size_t>(start),
                                                            static_cast<size_t>(count));
  slice.start = start;
  slice.blocks = s.blocks.ids();
  slice.sample = !s.request->score_only && start + count == static_cast<int>(s.tokens.size());
  slice.sampler = slice.sample ? &s.sampler : nullptr;
  if (scores) {
    slice.prompt_logprobs = s.request->sampling.prompt_logprobs;
    if (start + count < s.prompt_tokens)
      slice.next_token = s.tokens[static_cast<size_t>(start + count)];
  }
  planned.sequence = &s;
  planned.computed_after = start + count;
  planned.scores = scores;
  planned.score_from = start + 1;
  plan_.slices.push_back(slice);
  plan_.tokens += count;
  planned_.push_back(std::move(planned));
  // Decode rows come first in a plan, but a resumed sequence may get here after prompts.
  if (s.decoding()) {
    std::swap(plan_.slices.back(), plan_.slices[static_cast<size_t>(decode_rows_)]);
    std::swap(planned_.back(), planned_[static_cast<size_t>(decode_rows_)]);
    ++decode_rows_;
  }
  s.planned_in = step_;
  s.last_turn = step_;
  return true;
}

// --- admission ---

void Scheduler::PlanAdmissions(TimePoint now, bool with_slices) {
  if (waiting_.size() == 0) return;
  const QueueView view{running(), waiting_.size(), waiting_.OldestQueuedAt(), now};
  if (AdmissionOpens(options_, view) > now) return;
  int budget = with_slices ? ChunkBudget() - (plan_.tokens - decode_rows_) : 1;
  const int max_num_seqs = MaxNumSeqs(options_);
  skipped_.clear();
  WaitingQueue::Scan scan(waiting_, now, options_.priority_aging);
  while (running() < max_num_seqs && budget > 0 && SlicesLeft()) {
    Sequence* s = scan.Next();
    if (s == nullptr) return;
    // In a step for an interactive prompt, batch-class sequences are not admitted either.
    if (yielding_ && ClaimOf(*s, now).effective >= static_cast<int>(api::Priority::kBatch)) return;
    const Fit fit = TryAdmit(*s);
    if (fit == Fit::kWaitsForSibling) continue;
    if (fit == Fit::kDoesNotFit) {
      // It was passed over often enough: no later sequence is admitted before it.
      if (s->overtaken >= options_.max_overtakes) return;
      skipped_.push_back(s);
      if (skipped_.size() >= kSkipWindow) return;
      continue;
    }
    bool patience = true;
    for (Sequence* passed : skipped_) patience &= ++passed->overtaken < options_.max_overtakes;
    if (with_slices) {
      const int before = plan_.tokens;
      AddSlice(*s, budget, /*may_preempt=*/false);
      budget -= plan_.tokens - before;
    }
    if (!patience) return;  // a skipped sequence may not be overtaken again
  }
}

RunClaim Scheduler::ClaimOf(const Sequence& s, TimePoint now) const {
  const api::Priority priority = s.request->priority;
  return {.priority = static_cast<int>(priority),
          .effective = EffectiveClass(priority, now - s.queued_at, options_.priority_aging)};
}

void Scheduler::PreemptForWaiting(TimePoint now) {
  if (options_.strategy != Strategy::kContinuous || options_.admission == Admission::kNoEvict)
    return;
  if (running() < MaxNumSeqs(options_) || waiting_.size() == 0) return;
  const Sequence& first = *WaitingQueue::Scan(waiting_, now, options_.priority_aging).Next();
  const auto last = std::find_if(running_.rbegin(), running_.rend(),
                                 [&](const Sequence* s) { return s->tenant == first.tenant; });
  if (last == running_.rend() || (*last)->pinned || WaitsForSiblingOf(first)) return;
  if (!MayPreempt(ClaimOf(first, now), ClaimOf(**last, now))) return;
  // Ignores blocks that the prefix index may have: a preemption must not depend on a chance hit.
  const int needed = first.pinned ? WorstCaseBlocks(first.target_tokens)
                                  : BlocksFor(static_cast<int>(first.tokens.size()));
  if (needed - first.blocks.size() > SlackFor(PoolView()) + (*last)->blocks.size()) return;
  Preempt(**last, Preempted::Cause::kPriority);
}

bool Scheduler::WaitsForSiblingOf(const Sequence& s) const {
  if (!WaitsForSibling(options_.strategy) || s.computed > 0 || s.prompt_tokens < 2) return false;
  bool computing = false;
  for (const Sequence* other : s.siblings) {
    if (other == &s || other->state() == SequenceState::kFinished) continue;
    if (other->computed >= s.prompt_tokens - 1) return false;  // ready to be shared
    computing |= other->state() == SequenceState::kRunning;
  }
  return computing;
}

AdmissionView Scheduler::PoolView() const {
  AdmissionView view;
  for (const Sequence* r : running_) {
    if (r->blocks.promised() > 0 || r->pinned || options_.admission == Admission::kNoEvict)
      continue;
    ++view.growing;
    view.outstanding +=
        std::max(0, BlocksFor(static_cast<int>(r->tokens.size())) - r->blocks.size());
  }
  view.available = pool_.available();
  return view;
}

Scheduler::Fit Scheduler::TryAdmit(Sequence& s) {
  if (WaitsForSiblingOf(s)) return Fit::kWaitsForSibling;
  AdmissionView view = PoolView();
  view.reserve_worst = s.pinned || options_.admission == Admission::kNoEvict;
  // No blocks became available since it last did not fit: skip the look-up in the prefix index.
  if (s.refused_at && SlackFor(view) <= *s.refused_at && memory_.idle_holders() == 0)
    return Fit::kDoesNotFit;

  const int size = static_cast<int>(s.tokens.size());
  const bool fresh = SequenceMemory::Fresh(s);
  memory_.Find(s, reuse_);

  const auto fits = [&] {
    const int held = fresh ? reuse_.found.full_blocks : s.blocks.size();
    view.new_blocks = std::max(0, BlocksFor(size) - held);
    view.worst_blocks = std::max(0, WorstCaseBlocks(s.target_tokens) - held);
    view.revived = memory_.Revived(reuse_);
    view.available = pool_.available();
    return BlocksToAdmit(view) <= SlackFor(view);
  };

  while (!fits()) {
    if (memory_.DropUnheldPartial(reuse_)) continue;
    if (memory_.ReclaimIdle(s)) {
      // The reclaimed blocks may have changed the index, or the sibling that `reuse_` refers to.
      memory_.Find(s, reuse_);
    } else {
      s.refused_at = SlackFor(view);
      return Fit::kDoesNotFit;
    }
  }

  waiting_.Remove(s);
  memory_.SetIdle(s, false);
  if (fresh) memory_.Start(s, reuse_);
  if (view.reserve_worst) CHECK(pool_.Promise(s.blocks, view.worst_blocks));
  s.SetState(SequenceState::kRunning);
  s.refused_at.reset();
  InsertRunning(s);
  const bool first = !std::exchange(s.has_run, true);
  const int cached = fresh ? s.reached() : 0;
  if (first) {
    s.cached_tokens = std::min(cached, s.prompt_tokens);
    waiting_.Charge(s.tenant, kPromptTokenCost * (s.prompt_tokens - s.cached_tokens));
  }
  admitted_.push_back({&s, cached, reuse_.queried, first});
  return Fit::kAdmitted;
}

// --- room ---

bool Scheduler::MakeRoom(const Sequence& s, int count, bool may_preempt) {
  const auto enough = [&] { return s.blocks.promised() + pool_.available() >= count; };
  while (!enough()) {
    if (memory_.ReclaimIdle(s)) continue;
    if (!may_preempt) return false;
    Sequence* victim = running_.back();
    if (victim == &s || victim->pinned || victim->planned_in == step_ ||
        KeepsBefore(KeepKeyOf(*victim), KeepKeyOf(s)))
      return false;
    Preempt(*victim);
  }
  return true;
}

void Scheduler::Preempt(Sequence& s, Preempted::Cause cause) {
  CHECK(!s.pinned && s.planned_in != step_);
  preempted_.push_back({&s, s.computed, cause});
  ++preemptions_;
  EraseRunning(s);
  memory_.Release(s, /*keep_tail=*/true);
  if (++s.preemptions >= options_.max_preemptions) s.pinned = true;
  s.SetState(SequenceState::kWaiting);
  s.refused_at.reset();
  waiting_.Insert(s);
}

// --- commit ---

std::span<Outcome> Scheduler::Commit(StepResult& result, TimePoint /*now*/) {
  outcomes_.clear();
  accepted_.fill(0);
  Status whole = result.status;
  if (whole.ok() && !result.given_up && result.slices.size() != planned_.size()) {
    whole = Internal("the runner answered " + std::to_string(result.slices.size()) + " of " +
                     std::to_string(planned_.size()) + " slices");
  }
  if (whole.ok() && batch_only_) given_up_ = result.given_up ? given_up_ + 1 : 0;
  if (whole.ok() && result.given_up) {
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
  if (outcome.stop_token) {
    outcome.ended = true;
    outcome.finish_reason = api::FinishReason::kStop;
  } else if (s.matcher && s.matcher.finished()) {
    // The grammar allows only an end token now, so that no further step is needed.
    outcome.ended = true;
    outcome.finish_reason = api::FinishReason::kStop;
  } else if (static_cast<int>(s.tokens.size()) >= s.target_tokens) {
    outcome.ended = true;
    outcome.finish_reason = api::FinishReason::kLength;
  }
}

// --- views ---

TimePoint Scheduler::NextWork(TimePoint now) const {
  if (!running_.empty()) return now;
  return AdmissionOpens(options_, {running(), waiting_.size(), waiting_.OldestQueuedAt(), now});
}

int64_t Scheduler::unused_slots() const {
  int64_t slots = 0;
  for (const Sequence* s : running_)
    slots += int64_t{s->blocks.size()} * kBlockTokens - s->computed;
  return slots;
}

}  // namespace tutti::engine
