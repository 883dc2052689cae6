// Scheduler: decides what each step of a decoder computes. Deterministic: it has no clock, log,
// lock or thread, and the same calls give the same plans.
//
//   const StepPlan& plan = scheduler.Plan(now);     // plan and reserve
//   ... Drafter::Run(scheduler.draft_requests()), scheduler.TakeDrafts(...) ...
//   scheduler.Constrain();                          // token masks of grammars
//   ... the runner executes the plan ...
//   for (const Outcome& o : scheduler.Commit(result, now)) ...   // each sequence's result
//
// A step is a transaction. Its KV blocks are reservations, and only Commit changes the progress of
// sequences. When a slice fails, its blocks are returned and only its own sequence fails. When a
// step fails as a whole, nothing changes and its sequences are then run one by one, so that a
// sequence that makes every step fail fails alone. A plan that is never committed is rolled back by
// the next Plan(). Long, because planning and committing are the two halves of this transaction.
//
// Owned by a DecoderInstance; engine thread. Holds pointers to sequences from Add() to Finish();
// owns none.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/model_runner.h"
#include "engine/options.h"
#include "engine/policy/admission.h"
#include "engine/policy/order.h"
#include "engine/policy/prefill_chunk.h"
#include "engine/policy/strategy.h"
#include "engine/prefix_transfer.h"
#include "engine/sequence.h"
#include "engine/sequence_memory.h"
#include "engine/speculation.h"
#include "engine/waiting_queue.h"
#include "kv/block_pool.h"

namespace tutti::engine {

// Result of a committed step for one sequence; one Outcome for each token that was drawn.
struct Outcome {
  enum class Kind {
    kComputed,  // tokens were computed, none was drawn
    kToken,     // a token was drawn and appended
    kFailed,    // the sequence cannot continue; the caller finishes it
  };
  Sequence* sequence = nullptr;
  Kind kind = Kind::kComputed;
  Status status;             // kFailed: why
  TokenId token = kNoToken;  // kToken
  bool ended = false;        // by a token, by length, or because nothing is to be drawn
  api::FinishReason finish_reason = api::FinishReason::kLength;
  bool stop_token =
      false;  // `token` is one of stop_token_ids or an end of text; its text is not output
  bool named_stop = false;  // ... and of stop_token_ids
  int scored_from = 0;  // prompt tokens [scored_from, scored_from + result->prompt_logprobs.size())
  // Log-probabilities; both valid as long as the StepResult given to Commit.
  const sampling::RowLogprobs* logprobs = nullptr;  // kToken, where asked for
  SliceResult* result = nullptr;                    // of the sequence's first outcome in a step
};

struct Admitted {
  Sequence* sequence = nullptr;
  int cached_tokens = 0;   // found in the prefix index (or with a sibling)
  int queried_tokens = 0;  // looked for in the prefix index
  bool first = false;      // its first run
};

struct Preempted {
  enum class Cause { kBlocks, kPriority };
  Sequence* sequence = nullptr;
  int lost_tokens = 0;  // to be computed again, as far as the prefix index does not keep them
  Cause cause = Cause::kBlocks;  // what it had that another needed
};

class Scheduler {
 public:
  // `pool` and `transfer`, which may be null, outlive the scheduler. `draft_pass`: see Speculation.
  Scheduler(const SchedulerOptions& options, const RunnerLimits& limits, kv::KvBlockPool* pool,
            double draft_pass = 0, PrefixTransfer* transfer = nullptr);

  // Adds a new sequence. It waits to run, or, if `paused`, for Resume().
  void Add(Sequence& sequence, bool paused);
  // Begins to read what a PrefixStore has of the prompt of a sequence that was added.
  void ReadAhead(Sequence& sequence, TimePoint now) { (void)WaitsForLoad(sequence, now); }
  // Stops a running or waiting sequence; its blocks stay until others need them.
  void Pause(Sequence& sequence);
  void Resume(Sequence& sequence);
  // Removes a sequence in any state and frees what it holds. Not between Plan and Commit.
  // `reusable`: false if what it computed may be wrong (SequenceMemory::Release).
  void Finish(Sequence& sequence, bool reusable);

  // Plans a step and reserves its blocks. The plan stays valid until the next call of any method
  // except TakeDrafts, Constrain and Commit. A plan may have no slice; Commit (with an empty
  // result) must then still be called, because it reports sequences that got no memory.
  const StepPlan& Plan(TimePoint now);
  // The draft model's tasks for the plan, for Drafter::Run. TakeDrafts adds the resulting draft
  // tokens to the plan; without that call the plan has none of the model's.
  std::span<DraftRequest> draft_requests() { return speculation_.requests(); }
  void TakeDrafts(const DraftTimes& times);
  // Sets the token masks of sequences under a grammar. Draft tokens that the grammar forbids are
  // removed from the plan.
  void Constrain();
  std::span<Outcome> Commit(StepResult& result, TimePoint now);

  // Results of the last Plan(), valid until the next one.
  std::span<const Admitted> admitted() const { return admitted_; }
  std::span<const Preempted> preempted() const { return preempted_; }
  int decode_rows() const { return decode_rows_; }
  // Whether another slot used the device recently: steps with prefill then stay below
  // `contended_step`.
  void set_contended(bool contended) { contended_ = contended; }
  // Blocks of layers with a window that no sequence may count on.
  void set_pinned_window_blocks(int count) { pinned_window_blocks_ = count; }
  int draft_tokens() const { return drafts_; }  // proposed
  int prefill_tokens() const { return plan_.tokens - decode_rows_ - drafts_; }
  // Accepted draft tokens of the last Commit(), counted by their place in a sequence's draft.
  std::span<const int> accepted_drafts() const { return accepted_; }

  // Earliest time at which Plan() could have work if no method is called until then; max() = never.
  TimePoint NextWork(TimePoint now) const;
  uint64_t step() const { return step_; }  // number of the last plan
  int running() const { return static_cast<int>(running_.size()); }
  std::span<Sequence* const> running_sequences() const { return running_; }
  // Notes why the first waiting sequences wait, in the order in which they are admitted, and writes
  // them to `out`. Returns how many. Changes no plan.
  size_t ListWaiting(TimePoint now, std::span<Sequence*> out);
  int waiting() const { return waiting_.size(); }
  TimePoint OldestWaiting() const {
    return waiting_.OldestQueuedAt();
  }  // when it was accepted; max() = none
  int idle_holders() const { return memory_.idle_holders(); }
  uint64_t preemptions() const { return preemptions_; }
  int64_t unused_slots() const;  // of blocks held by running sequences
  const SchedulerOptions& options() const { return options_; }

 private:
  struct Planned {
    Sequence* sequence = nullptr;
    kv::KvReservation reservation;
    int computed_after = 0;  // without draft tokens
    int score_from = 0;
    bool scores = false;
    bool by_model = false;          // its draft tokens are the second model's
    Status constraint;              // why no mask could be made for its draw
    kv::SlotId save = kv::kNoSlot;  // slot of a checkpoint after the slice; owned
    int window_blocks = 0;          // that were added
  };
  enum class Fit { kAdmitted, kDoesNotFit, kWaitsForAnother, kFailed };

  // Undoes the plan: returns its blocks and slots. If the plan may have run, sequences whose
  // recurrent state it may have changed wait again, and resume from a checkpoint.
  void Rollback();
  void PlanSuspect(TimePoint now);
  void PlanTurn();
  void PlanDecodes();
  void PlanPrefills();
  void PlanAdmissions(TimePoint now, bool with_slices);
  // Adds draft tokens to the decode rows of a step without prefill. They take no new block: a row
  // that may be rejected must not cost another sequence its blocks.
  void PlanDrafts();
  // Extends slice `i` by the `count` draft tokens that were appended to its sequence's tokens.
  void AddDrafts(size_t i, int count);
  // Removes all but the first `count` draft tokens from slice `i`.
  void KeepDrafts(size_t i, int count);
  // Adds a slice of at most `budget` tokens; false when it got no blocks.
  bool AddSlice(Sequence& sequence, int budget, bool may_preempt);
  int ChunkBudget() const;
  int TokensLeft() const { return limits_.max_step_tokens - plan_.tokens; }
  bool SlicesLeft() const {
    return static_cast<int>(plan_.slices.size()) < limits_.max_step_slices;
  }

  // Whether this step is to compute an interactive request's prompt while more than half of the
  // running sequences are batch-class.
  bool HasInteractivePrefill(TimePoint now);
  // Whether all running sequences are batch-class, or, if none runs, the first waiting one is.
  bool BatchOnly(TimePoint now);
  // Whether `sequence` skips this step in favour of an interactive prompt.
  bool SkipsThisStep(const Sequence& sequence) const {
    return yielding_ && SkipsStep(sequence.request->priority, step_ - sequence.last_turn);
  }

  // When max_num_seqs sequences run: preempts a running sequence for the first waiting one. The
  // victim is the last in the order of keeping blocks among the same tenant's sequences; it must be
  // of a lower class (policy/order.h) and free enough blocks. At most one in each step.
  void PreemptForWaiting(TimePoint now);
  RunClaim ClaimOf(const Sequence& sequence, TimePoint now) const;
  // Whether the layers with a window have blocks for `sequence` until its end, in addition to those
  // that running sequences other than `leaving` may need: a running sequence never waits for one.
  bool WindowBlocksFit(const Sequence& sequence, const Sequence* leaving = nullptr) const;
  int MaxWindowBlocks(const Sequence& sequence) const;
  AdmissionView PoolView() const;  // blocks for a new sequence; its own needs are not filled in
  Fit TryAdmit(Sequence& sequence, TimePoint now);
  // What is known of the queue while its sequences are looked at in order.
  struct QueueLook {
    bool full = false;    // all places are taken
    bool closed = false;  // the queue is not looked at yet (static batching)
    bool yields = false;  // batch-class sequences wait for an interactive prompt
    bool kept = false;    // no later sequence may be admitted before an earlier one
    uint64_t latest = 0;  // arrival of the latest one ahead, and its tenant
    uint32_t tenant = 0;
  };
  api::WaitReason ReasonOf(const Sequence& sequence, const QueueLook& look) const;
  bool WaitsForSiblingOf(const Sequence& sequence) const;
  // Whether a running sequence of another request, not less urgent, is computing a beginning of its
  // prompt: it would be computed twice. At most SchedulerOptions::follow after it first was so.
  bool HasLeader(Sequence& sequence, TimePoint now);
  bool WaitsForAnother(Sequence& sequence, TimePoint now);  // a sibling, a load or a leader
  // Whether the beginning of its prompt is being read from a PrefixStore.
  bool WaitsForLoad(Sequence& sequence, TimePoint now);
  // Which of those that waited for a leader do so still: the others count as waiting prompts again.
  void LookAtFollowers(TimePoint now);
  // Frees blocks until `sequence` can get `count` more: those of sequences that do not run, then,
  // if `may_preempt`, by preempting running sequences after it. False when that was not enough.
  bool MakeRoom(const Sequence& sequence, int count, bool may_preempt);
  void Preempt(Sequence& sequence, Preempted::Cause cause = Preempted::Cause::kBlocks);
  void InsertRunning(Sequence& sequence);
  void EraseRunning(Sequence& sequence);
  void CommitSlice(size_t i, SliceResult& slice);
  // Whether draw `i` is a valid token: its logits were finite and its id is in the vocabulary.
  bool IsToken(const SliceResult& slice, int i) const;
  // Number of the draft tokens at the end of the sequence's tokens that the draws confirm.
  int CountAccepted(const Sequence& sequence, int drafts, const SliceResult& slice) const;
  bool StopsAt(const Sequence& sequence, TokenId token) const;
  // Sets `outcome.ended` if its token, the last one drawn, ends the sequence.
  void EndAtToken(const Sequence& sequence, Outcome& outcome) const;
  void SetSuspect(Sequence& sequence, bool suspect);

  const SchedulerOptions options_;
  const RunnerLimits limits_;
  kv::KvBlockPool& pool_;
  PrefixTransfer* const transfer_;
  SequenceMemory memory_;
  WaitingQueue waiting_;
  std::vector<Sequence*> running_;  // in the order in which they keep their blocks
  StepCost cost_;
  Speculation speculation_;
  bool followers_ = false;  // whether some sequence may wait for a leader
  bool contended_ = false;
  int pinned_window_blocks_ = 0;
  uint64_t step_ = 0;
  uint64_t preemptions_ = 0;
  int suspects_ = 0;

  // The plan in progress; members so that their memory is reused.
  StepPlan plan_;
  std::vector<Planned> planned_;
  std::vector<std::shared_ptr<const grammar::TokenMask>> masks_;  // that slices point to
  std::vector<Admitted> admitted_;
  std::vector<Preempted> preempted_;
  std::vector<Outcome> outcomes_;
  std::vector<Outcome> failures_;   // found while planning
  std::vector<Sequence*> skipped_;  // did not fit
  std::vector<Sequence*> turn_order_;
  std::vector<int> shares_;  // in tokens, of the prompts of turn_order_
  Reuse reuse_;
  std::array<int, kMaxDrafts> accepted_{};
  int decode_rows_ = 0;
  int drafts_ = 0;
  bool yielding_ = false;    // batch rows wait
  bool batch_only_ = false;  // steps are short, and may be aborted
  int aborted_steps_ = 0;    // steps aborted since one was finished
};

}  // namespace tutti::engine
