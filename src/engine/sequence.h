// Sequence: progress of one choice of a request. Owned by the request's RequestState; the scheduler
// keeps pointers to the sequences that were added to it. Engine thread only.
//
// `computed` follows the number of `tokens`: prefill, decode, resumption after preemption and
// prefix hits are all the same operation, computing tokens[computed..size) within a budget and
// drawing one more token when none is left.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/types.h"
#include "engine/draft_sources.h"
#include "engine/policy/draft_gain.h"
#include "engine/policy/order.h"
#include "engine/request.h"
#include "grammar/token_masker.h"
#include "kv/block_pool.h"
#include "kv/block_table.h"
#include "kv/prefix_index.h"
#include "sampling/sampler.h"

namespace tutti::engine {

// DraftState: the draft model's state of one sequence (drafter.h). Part of a Sequence; made by the
// submitting thread, then used on the engine thread only.
struct DraftState {
  bool on = false;                  // the model may propose for this sequence
  std::vector<kv::BlockId> blocks;  // of the model's own KV memory; capacity for all it may need
  int known = 0;                    // tokens whose KV is in them: the sequence's own first ...
  int confirmed = 0;                // ... this many, then the model's draft tokens
  std::array<TokenId, kMaxDrafts> proposed{};
  uint64_t used_in = 0;  // the drafter's last run for it
  AcceptanceStats hits{DraftSource::kModel};
  int streak = 0;       // correct draft tokens in a row
  int passed_over = 0;  // steps in which it could have been asked and was not

  // Drops KV of draft tokens that differ from the sequence's `tokens`. The last token counts as
  // unknown: it is computed again to draw the token that follows it.
  void Settle(std::span<const TokenId> tokens);
  // Number of tokens before the last one whose KV is missing.
  int Backlog(std::span<const TokenId> tokens) const {
    return static_cast<int>(tokens.size()) - 1 - known;
  }
};

// RecurrentState: the slots of one sequence of a model with recurrent states; all kNoSlot for
// other models and while the sequence holds no blocks. Part of a Sequence; managed by
// SequenceMemory.
struct RecurrentState {
  kv::SlotId live = kv::kNoSlot;  // the sequence's own, from its admission on
  int tokens = -1;                // tokens in it; -1: a step is changing it, or it was lost
  kv::SlotId from = kv::kNoSlot;  // checkpoint that the next slice begins with
  kv::SlotId fork = kv::kNoSlot;  // state before the prompt's last token, for other choices
  int rolling = 0;  // tokens before its last checkpoint in the answer, which the next one replaces
  int branch = 0;   // end of a known beginning of the prompt that had no checkpoint
};

// WindowTable: the blocks of one sequence in layers with a sliding window, where these have memory
// of their own. Part of a Sequence; managed by SequenceMemory.
struct WindowTable {
  std::vector<kv::SlotId> slots;  // parallel to the sequence's blocks; kNoSlot behind the window
  int first = 0;                  // slots before this one are behind the window
  kv::SlotId copy_from = kv::kNoSlot;  // slot of Sequence::copy_from; a reference is held
};

// All moves of a sequence, through SetState(); the scheduler makes them:
//
//            Plan admits it              Finish
//   waiting ----------------> running ------------> finished
//    ^ |  ^                    | |                     ^
//    | |  +--- Plan preempts --+ | Pause               |
//    | |                         v                     |
//    | +-------- Pause -----> paused ------------------+
//    +---------- Resume ---------+        Finish
//
// A waiting sequence also ends by Finish: its request was cancelled, expired or failed.
enum class SequenceState : uint8_t {
  kWaiting,   // waits to run
  kRunning,   // runs
  kPaused,    // may not continue now: its reader is behind, or no token was granted
  kFinished,  // left; holds nothing
};

std::string_view StateName(SequenceState state);

struct Sequence {
  // --- constant once the scheduler has it ---
  uint32_t id = 0;
  int choice = 0;
  const Request* request = nullptr;
  std::span<Sequence* const> siblings;  // all choices of the request, this one included
  int prompt_tokens = 0;
  int target_tokens = 0;  // prompt and output: the sequence ends at this length
  uint64_t arrival = 0;   // order of submission; equal for siblings
  TimePoint queued_at{};
  kv::RootId root = kv::kNoRoot;    // partition of the prefix index; kNoRoot = no reuse
  uint32_t tenant = 0;              // the scheduler's index
  std::vector<TokenId> end_tokens;  // what may end the text, for min_tokens

  // --- progress ---
  std::vector<TokenId> tokens;  // prompt, then what was drawn; capacity for target_tokens
  int computed = 0;             // tokens whose KV is in `blocks`
  int scored = 0;  // prompt tokens whose log-probabilities were delivered (the first has none)
  kv::BlockTable blocks;
  int indexed = 0;  // leading blocks that are in the prefix index
  kv::BlockId copy_from =
      kv::kNoBlock;     // a block to copy before the next slice (a reference is held), and ...
  int copy_tokens = 0;  // ... how many of its slots belong to this sequence
  WindowTable windows;
  RecurrentState recurrent;
  sampling::RowState sampler;
  grammar::Matcher matcher;   // how far the output has come under the request's grammar
  ReasoningBudget reasoning;  // only with a matcher
  PromptLookup lookup;  // where the text may be copied from; finds nothing where it was not begun
  PredictedText prediction;  // draft tokens from the client's expected answer
  DraftState draft;          // the draft model's state for this sequence
  ForcedDrafts forced;       // what the grammar forces; guesses nothing where it was not begun

  // --- the scheduler's ---
  int preemptions = 0;
  int overtaken = 0;     // admissions of later sequences while this one did not fit
  bool pinned = false;   // preempted often enough: runs only with its worst case promised
  bool suspect = false;  // was part of a step that failed as a whole: runs alone until it succeeds
  bool has_run = false;
  int cached_tokens = 0;          // reused at the first admission
  uint64_t planned_in = 0;        // last plan that has a slice of this sequence
  uint64_t last_turn = 0;         // same, kept for round robin
  std::optional<int> refused_at;  // blocks it could count on when it last did not fit
  Sequence* previous = nullptr;   // waiting list
  Sequence* next = nullptr;

  SequenceState state() const { return state_; }
  // The one place that knows all legal transitions; CHECKs that the transition is legal.
  void SetState(SequenceState to);

  int output_tokens() const { return static_cast<int>(tokens.size()) - prompt_tokens; }
  bool scoring() const {  // log-probabilities of the prompt are still owed
    return choice == 0 && request->sampling.prompt_logprobs >= 0 && scored < prompt_tokens - 1;
  }
  // Tokens to compute before the next draw, or before the end where nothing is drawn.
  int wanted() const {
    return request->score_only ? prompt_tokens - 1 : static_cast<int>(tokens.size());
  }
  int reached() const { return computed + copy_tokens; }
  bool decoding() const { return wanted() - reached() == 1 && reached() >= prompt_tokens; }

 private:
  SequenceState state_ = SequenceState::kWaiting;
};

// Key of the order in which running sequences keep their blocks.
inline KeepKey KeepKeyOf(const Sequence& s) {
  return {s.pinned, static_cast<int>(s.request->priority), s.arrival, s.choice};
}

// Maximum number of blocks of a sequence; its last token is drawn and never computed.
inline int WorstCaseBlocks(int target_tokens) {
  return BlocksFor(target_tokens > 1 ? target_tokens - 1 : 1);
}

// Removes the draft tokens, which are at the end of the sequence's tokens while their step runs.
inline void DropDrafts(Sequence& s, int drafts) {
  if (drafts > 0) s.tokens.resize(s.tokens.size() - static_cast<size_t>(drafts));
}

// Cached KV that a sequence without blocks can start from. Valid until blocks are next taken or
// released. Callers keep one object, so that its memory is reused.
struct Reuse {
  kv::PrefixIndex::Match found;     // of the prompt, in the prefix index or with a sibling
  std::vector<kv::BlockId> blocks;  // the full ones of `found`
  int queried = 0;                  // tokens looked for in the prefix index
  // With recurrent states: the checkpoint at the end of `found`, and the end of what the index
  // knows beyond it.
  kv::SlotId state = kv::kNoSlot;
  int branch = 0;
  std::vector<kv::SlotId> windows;  // slots of the full blocks that the next token sees, last first
  kv::SlotId partial_window = kv::kNoSlot;
};

// Manages the memory of sequences, KV blocks and slots of recurrent states: prefix reuse at
// admission, indexing of full blocks, checkpoints, release, and reclaiming the memory of sequences
// that do not run.
//
// Owned by a Scheduler; engine thread. Uses the block pool, which must outlive it, and keeps
// pointers to the sequences that hold blocks and do not run.
class SequenceMemory {
 public:
  // `window`: of the layers whose blocks are pool->windows(), if there are any.
  SequenceMemory(kv::KvBlockPool* pool, int window)
      : pool_(*pool), states_(pool->states()), windows_(pool->windows()), window_(window) {}

  // Whether the model has recurrent states, or windows with memory of their own.
  bool stateful() const { return states_.total() > 0; }
  bool windowed() const { return windows_.total() > 0; }

  // --- at admission ---
  static bool Fresh(const Sequence& s) {  // holds no memory
    return s.blocks.empty() && s.copy_from == kv::kNoBlock && s.recurrent.live == kv::kNoSlot;
  }
  // Looks up the sequence's prompt. Finds nothing if the sequence is not fresh, or if its prompt is
  // to be scored, which needs the logits of every row. With recurrent states it finds only what
  // ends at a checkpoint, and a partly filled block only if `partial`.
  void Find(const Sequence& s, Reuse& reuse, bool partial = true) const;
  // Number of its blocks that only the index references: using them reduces the available blocks.
  int Revived(const Reuse& reuse) const;
  // Drops the partly matching block if only the index references it: as the source of a copy it
  // would take one more block until the copy is done. False when there is no such block.
  bool DropUnheldPartial(const Sequence& s, Reuse& reuse) const;
  // Whether a slot is available for the sequence, besides the checkpoint of `reuse`.
  bool StateFits(const Sequence& s, const Reuse& reuse) const;
  // Forgets what was found if its checkpoint is the only available slot. False if it is not.
  bool DropForState(const Sequence& s, Reuse& reuse) const;
  // Gives a fresh sequence the blocks that were found.
  void Start(Sequence& s, const Reuse& reuse);

  // --- of a sequence ---
  void DropCopy(Sequence& s);   // the copied block is no longer needed, or not wanted
  void IndexFull(Sequence& s);  // enters blocks that became full into the prefix index
  // Frees all memory. With `reusable` the last, partly filled block is kept in the prefix index
  // too, and the recurrent state becomes the checkpoint of the last block. Without, what the
  // sequence computed leaves the index, unless another sequence uses or has continued it.
  void Release(Sequence& s, bool reusable);

  // --- its blocks in layers with a window ---
  // Appends `count` blocks for a step; from sequences that do not run, if need be. The admission
  // rule guarantees that they exist (Scheduler::WindowsFit).
  void AddWindows(Sequence& s, int count);
  void RemoveWindows(Sequence& s, int count);  // the last ones, as the step failed
  void FreeBehindWindow(Sequence& s);

  // --- its recurrent state ---
  // Empties a running sequence, which keeps its slot.
  void Restart(Sequence& s);
  // A slot for a checkpoint, or kNoSlot. The caller gives it to CommitState or drops it.
  kv::SlotId TakeSave() { return states_.Take(); }
  void DropSave(kv::SlotId slot) { states_.Drop(slot); }
  bool CanSave() const { return states_.available() > 0; }
  // The step has computed the sequence's `computed` tokens and filled `save`, if it is set.
  void CommitState(Sequence& s, kv::SlotId save);
  // Whether other choices of its request have not run yet: they can start from its prompt.
  static bool SiblingsWait(const Sequence& s);
  // Drops the states kept for other choices once all of them have run.
  void DropForks(const Sequence& s);
  // Whether a step that failed has destroyed the state: it is in no checkpoint that `s` refers to.
  static bool StateLost(const Sequence& s);

  // --- sequences that hold memory and do not run ---
  void SetIdle(Sequence& s, bool idle);
  // Releases the memory of one such sequence other than `except`. False when there is none.
  bool ReclaimIdle(const Sequence& except);
  int idle_holders() const { return static_cast<int>(idle_.size()); }

 private:
  void FindWithSibling(const Sequence& s, Reuse& reuse) const;
  // Whether `reuse` has the slots that the token after it sees; fills in those.
  bool FindWindows(const Sequence* sibling, Reuse& reuse) const;
  void AttachWindow(Sequence& s, int i, kv::BlockId block);
  void DropStates(Sequence& s);
  void DropWindows(Sequence& s);
  void AttachLive(Sequence& s, kv::BlockId tail);

  kv::KvBlockPool& pool_;
  kv::SlotPool& states_;   // pool_.states()
  kv::SlotPool& windows_;  // pool_.windows()
  const int window_;
  std::vector<Sequence*> idle_;  // paused or waiting, yet holding memory
};

}  // namespace tutti::engine
