// Sequence: progress of one choice of a request. Owned by the request's RequestState; the scheduler
// keeps pointers to the sequences that were added to it. Engine thread only.
//
// `computed` follows the number of `tokens`: prefill, decode, resumption after preemption and
// prefix hits are all the same operation, computing tokens[computed..size) within a budget and
// drawing one more token when none is left.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "api/request_trace.h"
#include "base/clock.h"
#include "base/types.h"
#include "engine/draft_sources.h"
#include "engine/policy/draft_gain.h"
#include "engine/policy/order.h"
#include "engine/request.h"
#include "grammar/token_masker.h"
#include "kv/block_table.h"
#include "kv/prefix_index.h"
#include "kv/slot_pool.h"
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

// WindowTable: the window blocks of one sequence. A window block holds the keys and values of a
// block in layers with a sliding window, where these have memory of their own. Part of a Sequence;
// managed by SequenceMemory.
struct WindowTable {
  std::vector<kv::SlotId> ids;  // parallel to the sequence's blocks; kNoSlot behind the window
  int first = 0;                // ids before this one are behind the window
  kv::SlotId copy_from = kv::kNoSlot;  // that of Sequence::copy_from; a reference is held
};

// Whether the beginning of a sequence's prompt was looked for in a PrefixStore (PrefixTransfer).
enum class LoadState : uint8_t {
  kNone,     // not yet, or others are being read
  kLoading,  // it is being read
  kDone,     // it was read as far as possible, or is not there
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
  // Prompt tokens after the first whose log-probabilities were delivered, or are not asked for.
  int scored = 0;
  kv::BlockTable blocks;
  int indexed = 0;  // leading blocks that are in the prefix index
  int found = 0;    // of these, those that it began with
  kv::BlockId copy_from =
      kv::kNoBlock;     // a block to copy before the next slice (a reference is held), and ...
  int copy_tokens = 0;  // ... how many of its slots belong to this sequence
  WindowTable window_blocks;
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
  // Of waiting for a leader: when that began ({}: it has not), the tokens that the prefix index had
  // then, and whether the last plan left it waiting.
  TimePoint follows_since{};
  int known_tokens = 0;
  bool following = false;
  bool does_not_fit = false;                           // when it was last to be admitted
  api::WaitReason waits_for = api::WaitReason::kNone;  // NoteWait()
  TimePoint waits_since{};
  LoadState load = LoadState::kNone;
  uint64_t load_asked_at = 0;              // loads that had ended when the store was asked last
  int loaded_from = 0, loaded_tokens = 0;  // of the prompt, read from a PrefixStore for it
  std::unique_ptr<kv::PrefixIndex::Explanation> explanation;  // of its first look-up, if asked for
  bool load_failed = false;                    // not all that is kept of it could be read
  TimePoint load_deadline = TimePoint::max();  // until which it waits for that
  Sequence* previous = nullptr;                // waiting list
  Sequence* next = nullptr;

  SequenceState state() const { return state_; }
  // The one place that knows all legal transitions; CHECKs that the transition is legal.
  void SetState(SequenceState to);

  int output_tokens() const { return static_cast<int>(tokens.size()) - prompt_tokens; }
  bool scoring() const {  // log-probabilities of the prompt are still owed
    return choice == 0 && request->sampling.prompt_logprobs >= 0 && scored < prompt_tokens - 1;
  }
  // Tokens whose KV may come from elsewhere: the last one is computed, to draw from, and so are
  // those that log-probabilities come from.
  int reusable() const {
    // A pinned prompt draws nothing, and must still have something to compute.
    const int known = static_cast<int>(tokens.size()) - (request->pin ? 2 : 1);
    return scoring() ? std::min(scored, known) : known;
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

// Records that from `now` on the sequence waits for this, or runs (kNone), in its request's trace
// too. `tokens`: TraceEvent::tokens.
void NoteWait(Sequence& s, api::WaitReason reason, TimePoint now, int tokens = 0);

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

}  // namespace tutti::engine
