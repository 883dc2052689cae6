#include "engine/scheduler.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "base/check.h"
#include "engine/policy/admission.h"
#include "engine/policy/checkpoint.h"
#include "engine/policy/order.h"

namespace tutti::engine {

Scheduler::Scheduler(const SchedulerOptions& options, const RunnerLimits& limits,
                     kv::KvBlockPool* pool, double draft_pass, PrefixTransfer* transfer)
    : options_(options),
      limits_(limits),
      pool_(*pool),
      transfer_(transfer),
      memory_(pool, limits.window, transfer),
      speculation_(draft_pass) {
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
    s.root = pool_.index().AcquireRoot(
        s.request->tenant, s.request->cache_salt,
        s.request->adapter == nullptr ? std::string_view() : s.request->adapter->digest());
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
    if (!SequenceMemory::Fresh(s)) memory_.SetIdle(s, true);
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

void Scheduler::Finish(Sequence& s, bool reusable) {
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
  if (transfer_ != nullptr) transfer_->Cancel(s);
  memory_.Release(s, reusable);
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
  if (s.request->adapter != nullptr) s.request->adapter->use().running.fetch_add(1);
}

void Scheduler::EraseRunning(Sequence& s) {
  running_.erase(std::find(running_.begin(), running_.end(), &s));
  if (s.request->adapter != nullptr) s.request->adapter->use().running.fetch_sub(1);
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
  plan_.window_copies.clear();
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
    PlanSuspect(now);
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
    LookAtFollowers(now);
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
  // An aborted step would cost more than the time it saves if the states before it were lost.
  plan_.abortable = batch_only_ && aborted_steps_ < kMaxAbortedSteps && !memory_.stateful() &&
                    std::all_of(planned_.begin(), planned_.end(), [](const Planned& planned) {
                      return planned.sequence->request->priority == api::Priority::kBatch;
                    });
  return plan_;
}

void Scheduler::Rollback() {
  // Destroying a reservation returns its blocks; blocks go back in the reverse order.
  while (!planned_.empty()) {
    Planned& planned = planned_.back();
    Sequence& s = *planned.sequence;
    DropDrafts(s, plan_.slices[planned_.size() - 1].drafts);
    if (planned.save != kv::kNoSlot) memory_.DropSave(planned.save);
    memory_.RemoveWindowBlocks(s, planned.window_blocks);
    planned_.pop_back();
    if (!SequenceMemory::StateLost(s)) continue;
    EraseRunning(s);
    memory_.Release(s, /*reusable=*/true);
    s.SetState(SequenceState::kWaiting);
    s.refused_at.reset();
    waiting_.Insert(s);
  }
}

void Scheduler::PlanSuspect(TimePoint now) {
  // Iterates over a copy: AddSlice may preempt, which removes sequences from running_.
  turn_order_.assign(running_.begin(), running_.end());
  for (Sequence* s : turn_order_) {
    if (!s->suspect || s->state() != SequenceState::kRunning) continue;
    if (AddSlice(*s, std::min(options_.prefill_chunk, TokensLeft()), /*may_preempt=*/true)) return;
    if (!failures_.empty()) return;
  }
  // A suspect that lost its recurrent state or was preempted waits. It is admitted here, alone.
  if (running() >= MaxNumSeqs(options_)) return;
  WaitingQueue::Scan scan(waiting_, now, options_.priority_aging);
  while (Sequence* s = scan.Next()) {
    if (!s->suspect || TryAdmit(*s, now) != Fit::kAdmitted) continue;
    AddSlice(*s, std::min(options_.prefill_chunk, TokensLeft()), /*may_preempt=*/true);
    return;
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
  // A recurrent state cannot go back to the token before a rejected one.
  if (memory_.stateful()) return;
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
  for (const DraftRequest& ask : speculation_.requests()) {
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
  // Where a slice of a sequence with a recurrent state must end, and would be copied.
  int checkpoint = INT_MAX;
  if (s.recurrent.live != kv::kNoSlot && memory_.CanSave()) {
    checkpoint = NextCheckpoint({.start = start,
                                 .size = static_cast<int>(s.tokens.size()),
                                 .prompt = s.prompt_tokens,
                                 .cached = s.root != kv::kNoRoot,
                                 .forks = SequenceMemory::SiblingsWait(s),
                                 .branch = s.recurrent.branch});
    count = std::min(count, checkpoint - start);
  }
  // Rows of the slice before those whose successors' log-probabilities are asked for.
  const int unscored = std::max(s.request->score_from - 1 - start, 0);
  if (s.scoring() && start < s.prompt_tokens)
    count = std::min(count, s.prompt_tokens - start);  // the recomputed output is not scored

  int needed = BlocksFor(start + count) - s.blocks.size();
  if (needed > 0 && !MakeRoom(s, needed, may_preempt)) {
    if (s.copy_from != kv::kNoBlock) {  // its source may be the very block that is missing
      if (memory_.stateful() || memory_.windowed()) {
        memory_.Restart(s);  // what else it holds belongs to the end of the copied block
      } else {
        memory_.DropCopy(s);
      }
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
    if (memory_.windowed()) {
      memory_.AddWindowBlocks(s, needed);
      planned.window_blocks = needed;
      if (copies) {
        plan_.window_copies.push_back(
            {s.window_blocks.copy_from, s.window_blocks.ids[static_cast<size_t>(first_new)]});
      }
    }
  }
  s.sampler.output =
      std::span<const TokenId>(s.tokens).subspan(static_cast<size_t>(s.prompt_tokens));
  SequenceSlice slice;
  slice.sequence = s.id;
  slice.tokens = std::span<const TokenId>(s.tokens).subspan(static_cast<size_t>(start),
                                                            static_cast<size_t>(count));
  slice.start = start;
  slice.blocks = s.blocks.ids();
  slice.window_blocks = s.window_blocks.ids;
  if (s.recurrent.live != kv::kNoSlot) {
    if (start + count == checkpoint) planned.save = memory_.TakeSave();
    slice.state = s.recurrent.live;
    slice.state_from = s.recurrent.from;
    slice.state_save = planned.save;
    s.recurrent.tokens = -1;
  }
  slice.sample = !s.request->score_only && start + count == static_cast<int>(s.tokens.size());
  slice.sampler = slice.sample ? &s.sampler : nullptr;
  slice.adapter = s.request->adapter.get();
  const bool scores = s.scoring() && start < s.prompt_tokens && unscored < count;
  if (scores) {
    slice.unscored = unscored;
    if (start + unscored + 1 == s.request->score_from) slice.alternatives = s.request->alternatives;
    slice.prompt_logprobs = s.request->sampling.prompt_logprobs;
    if (start + count < s.prompt_tokens)
      slice.next_token = s.tokens[static_cast<size_t>(start + count)];
  }
  planned.sequence = &s;
  planned.computed_after = start + count;
  planned.scores = scores;
  planned.score_from = start + 1 + unscored;
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
