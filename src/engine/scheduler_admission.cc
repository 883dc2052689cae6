// Scheduler: which waiting sequences run next, and who makes room for them.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/policy/admission.h"
#include "engine/policy/order.h"
#include "engine/policy/window.h"
#include "engine/scheduler.h"

namespace tutti::engine {
namespace {

// Maximum number of waiting sequences that a plan passes over because they do not fit: bounds the
// work of a plan with a long queue.
constexpr size_t kSkipWindow = 64;

// Fewest tokens that a sequence waits for: with less, computing them again costs less than a step.
constexpr size_t kLeastFollowed = 2 * kBlockTokens;

}  // namespace

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
    // Part of a step that failed: it is admitted by PlanSuspect, alone, before any other.
    if (s->suspect) return;
    // In a step for an interactive prompt, batch-class sequences are not admitted either.
    if (yielding_ && ClaimOf(*s, now).effective >= static_cast<int>(api::Priority::kBatch)) return;
    const Fit fit = TryAdmit(*s, now);
    s->does_not_fit = fit == Fit::kDoesNotFit;
    if (fit == Fit::kWaitsForAnother) continue;
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
  WaitingQueue::Scan scan(waiting_, now, options_.priority_aging);
  Sequence* next = scan.Next();
  while (next != nullptr && WaitsForAnother(*next, now)) next = scan.Next();
  if (next == nullptr) return;
  const Sequence& first = *next;
  const auto last = std::find_if(running_.rbegin(), running_.rend(),
                                 [&](const Sequence* s) { return s->tenant == first.tenant; });
  if (last == running_.rend() || (*last)->pinned) return;
  if (!MayPreempt(ClaimOf(first, now), ClaimOf(**last, now))) return;
  if (!WindowBlocksFit(first, *last)) return;
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

bool Scheduler::WaitsForAnother(Sequence& s, TimePoint now) {
  if (WaitsForSiblingOf(s) || WaitsForLoad(s, now)) return true;
  s.following = HasLeader(s, now);
  followers_ |= s.following;
  return s.following;
}

bool Scheduler::WaitsForLoad(Sequence& s, TimePoint now) {
  if (transfer_ == nullptr || s.load == LoadState::kDone) return false;
  if (s.root == kv::kNoRoot || s.suspect || s.has_run || !SequenceMemory::Fresh(s)) return false;
  if (transfer_->MayAsk(s)) {
    memory_.Find(s, reuse_, /*partial=*/false);
    transfer_->Ask(s, reuse_.blocks, now);
  }
  return transfer_->Waits(s, now);
}

void Scheduler::LookAtFollowers(TimePoint now) {
  if (!std::exchange(followers_, false)) return;
  WaitingQueue::Scan scan(waiting_, now, options_.priority_aging);
  while (Sequence* s = scan.Next()) {
    if (s->following) s->following = HasLeader(*s, now);
    followers_ |= s->following;
  }
}

bool Scheduler::HasLeader(Sequence& s, TimePoint now) {
  if (!WaitsForSibling(options_.strategy) || options_.follow <= Duration::zero()) return false;
  if (s.suspect || s.root == kv::kNoRoot || !SequenceMemory::Fresh(s)) return false;
  const bool begun = s.follows_since != TimePoint{};
  if ((begun && now - s.follows_since >= options_.follow) ||
      now - s.queued_at >= options_.follow_age)
    return false;
  const auto tokens = std::span<const TokenId>(s.tokens).first(static_cast<size_t>(s.reusable()));
  for (Sequence* leader : running_) {
    if (leader->root != s.root || leader->request == s.request) continue;
    const int done = leader->reached();
    const auto at = static_cast<size_t>(done);
    const auto others = std::span<const TokenId>(leader->tokens);
    // With recurrent states it can start at a checkpoint alone, so it waits for that.
    const int checkpoint = memory_.stateful() ? leader->recurrent.branch - done : 0;
    const size_t ahead = checkpoint > 0
                             ? std::min<size_t>(static_cast<size_t>(checkpoint), kLeastFollowed)
                             : kLeastFollowed;
    if (std::min(tokens.size(), others.size()) < at + ahead) continue;
    if (ClaimOf(*leader, now).effective > ClaimOf(s, now).effective) continue;
    // What is computed next is compared first: where prompts differ, they mostly differ there.
    const auto next = tokens.begin() + static_cast<ptrdiff_t>(at);
    if (!std::equal(next, next + static_cast<ptrdiff_t>(ahead),
                    others.begin() + static_cast<ptrdiff_t>(at)) ||
        !std::equal(tokens.begin(), next, others.begin()))
      continue;
    if (!begun) {
      memory_.Find(s, reuse_);
      s.known_tokens = reuse_.found.full_blocks * kBlockTokens + reuse_.found.partial_tokens;
    }
    // A leader that came before these were cached, lost its blocks or scores its prompt computes
    // them again.
    if (s.known_tokens >= done + kBlockTokens) return false;
    if (memory_.stateful() && checkpoint <= 0) {
      const auto end = std::mismatch(tokens.begin(), tokens.end(), others.begin(), others.end());
      leader->recurrent.branch =
          static_cast<int>(end.first - tokens.begin()) / kBlockTokens * kBlockTokens;
    }
    if (!begun) s.follows_since = now;
    return true;
  }
  return false;
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

int Scheduler::MaxWindowBlocks(const Sequence& s) const {
  return engine::MaxWindowBlocks(limits_.window, MaxPromptRows(options_, limits_.max_step_tokens),
                                 WorstCaseBlocks(s.target_tokens));
}

bool Scheduler::WindowBlocksFit(const Sequence& s, const Sequence* leaving) const {
  // With as many as blocks, each active one belongs to an active block (SequenceMemory).
  const int total = pool_.window_blocks().total();
  if (total == 0 || total >= pool_.total()) return true;
  int needed = MaxWindowBlocks(s) + pinned_window_blocks_;
  for (const Sequence* r : running_) needed += r == leaving ? 0 : MaxWindowBlocks(*r);
  return needed <= total;
}

Scheduler::Fit Scheduler::TryAdmit(Sequence& s, TimePoint now) {
  if (WaitsForAnother(s, now)) return Fit::kWaitsForAnother;
  if (!WindowBlocksFit(s)) return Fit::kDoesNotFit;
  AdmissionView view = PoolView();
  view.reserve_worst = s.pinned || options_.admission == Admission::kNoEvict;
  // No blocks became available since it last did not fit: skip the look-up in the prefix index.
  if (s.refused_at && SlackFor(view) <= *s.refused_at && !memory_.CanReclaim())
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
    return BlocksToAdmit(view) <= SlackFor(view) && memory_.StateFits(s, reuse_);
  };

  while (!fits()) {
    if (memory_.DropUnheldPartial(s, reuse_)) continue;
    if (memory_.ReclaimIdle(s)) {
      // The reclaimed blocks may have changed the index, or the sibling that `reuse_` refers to.
      memory_.Find(s, reuse_);
    } else if (!memory_.DropForState(s, reuse_)) {
      // Slots of the other pools may become available when no block does.
      if (!memory_.stateful() && !memory_.windowed()) s.refused_at = SlackFor(view);
      return Fit::kDoesNotFit;
    }
  }

  if (s.request->explain_prefix && !s.has_run && s.root != kv::kNoRoot) {
    s.explanation = std::make_unique<kv::PrefixIndex::Explanation>(pool_.index().Explain(
        s.root, std::span<const TokenId>(s.tokens).first(static_cast<size_t>(s.reusable()))));
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
    memory_.DropForks(s);
  }
  admitted_.push_back({&s, cached, reuse_.queried, first});
  return Fit::kAdmitted;
}

// --- reasons, for operators ---

size_t Scheduler::ListWaiting(TimePoint now, std::span<Sequence*> out) {
  if (waiting_.size() == 0) return 0;
  QueueLook look;
  look.full = running() >= MaxNumSeqs(options_);
  look.closed =
      options_.strategy == Strategy::kStatic &&
      AdmissionOpens(options_, {running(), waiting_.size(), waiting_.OldestQueuedAt(), now}) > now;
  look.yields = SharedForward(options_.strategy) && HasInteractivePrefill(now);
  WaitingQueue::Scan scan(waiting_, now, options_.priority_aging);
  size_t count = 0;
  while (count < out.size()) {
    Sequence* const s = scan.Next();
    if (s == nullptr) break;
    NoteWait(*s, ReasonOf(*s, look), now);
    out[count++] = s;
    look.kept |= s->does_not_fit && s->overtaken >= options_.max_overtakes;
    if (s->arrival < look.latest) continue;
    look.latest = s->arrival;
    look.tenant = s->tenant;
  }
  return count;
}

// What a sequence itself waits for comes first, then its place in the queue, then what is short for
// all.
api::WaitReason Scheduler::ReasonOf(const Sequence& s, const QueueLook& look) const {
  using api::WaitReason;
  if (s.suspect) return WaitReason::kFailedStep;
  if (WaitsForSiblingOf(s)) return WaitReason::kSibling;
  if (s.load == LoadState::kLoading) return WaitReason::kPrefixLoad;
  if (s.following) return WaitReason::kSamePrompt;
  // Until it runs again, whatever it lacks now.
  if (s.waits_for == WaitReason::kPreempted) return WaitReason::kPreempted;
  if (look.closed) return WaitReason::kBatchWindow;
  if (s.arrival < look.latest)
    return s.tenant == look.tenant ? WaitReason::kPriority : WaitReason::kFairShare;
  if (look.yields && s.request->priority == api::Priority::kBatch) return WaitReason::kPriority;
  if (look.full) return WaitReason::kMaxNumSeqs;
  if (s.does_not_fit) return WaitReason::kKvBlocks;
  return look.kept ? WaitReason::kBehind : WaitReason::kNextStep;
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
  memory_.Release(s, /*reusable=*/true);
  if (++s.preemptions >= options_.max_preemptions) s.pinned = true;
  s.SetState(SequenceState::kWaiting);
  s.refused_at.reset();
  waiting_.Insert(s);
}

}  // namespace tutti::engine
