// ModelRunner: the interface through which the engine runs a decoder model on a device, and the
// plan and result of a step. The engine links no implementation; tests use those of
// testing/fake_model_runner.h.
//
// Plans and results are plain values, made and read on the engine thread; the runner's compute
// threads only read the plan.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "engine/adapter.h"
#include "engine/options.h"
#include "grammar/token_mask.h"
#include "kv/block_table.h"
#include "kv/prefix_store.h"
#include "kv/slot_pool.h"
#include "sampling/sampler.h"

namespace tutti::engine {

// One sequence's part of a step: consecutive tokens of it, appended to its KV cache in one forward
// pass. A prefill chunk and a decode row differ only in length.
struct SequenceSlice {
  uint32_t sequence = 0;                // engine's id, for traces
  std::span<const TokenId> tokens;      // [n] tokens to compute, n >= 1 + drafts
  int start = 0;                        // position of tokens[0] = tokens already in the KV cache
  std::span<const kv::BlockId> blocks;  // block table; covers start + n tokens
  // Where layers with a window have blocks of their own (RunnerLimits::window_blocks): theirs, as
  // many as `blocks`; kNoSlot for a block that no token of the slice sees.
  std::span<const kv::SlotId> window_blocks;
  bool sample = false;               // draw the token that follows tokens.back()
  const Adapter* adapter = nullptr;  // one of this runner's; null: the model itself
  // Recurrent state, for a model that has one (RunnerLimits::state_slots); else kNoSlot. `state`
  // is this sequence's own slot. The step begins with a copy of slot `state_from` if that is set,
  // with zeros if `start` is 0, and else with what `state` holds: the state after `start` tokens.
  // It ends with the state after all tokens of the slice, also in slot `state_save` if that is set.
  // If the step fails, the contents of `state` and `state_save` count for nothing.
  kv::SlotId state = kv::kNoSlot;
  kv::SlotId state_from = kv::kNoSlot;  // no slice of the plan writes it
  kv::SlotId state_save = kv::kNoSlot;  // no other slice of the plan uses it
  // Trailing draft tokens, verified in this step, at most kMaxDrafts: if `sample`, the token that
  // follows each of them is drawn too, as if all tokens before it had been drawn.
  int drafts = 0;
  // Parameters and history of the draws; set when sample. `output` includes the draft tokens:
  // HistoryOf() returns the history of one draw.
  const sampling::RowState* sampler = nullptr;
  // Tokens that the sequence's grammar allows at each draw, [0, drafts]; null: all.
  std::array<const grammar::TokenMask*, kMaxDrafts + 1> masks = {};
  // >= 0: log-probabilities of the token after each of tokens[0..n-1], with so many alternatives.
  // The token after the last one is in `next_token`, or kNoToken where the prompt ends here.
  int prompt_logprobs = -1;
  TokenId next_token = kNoToken;
  int unscored = 0;  // of them, tokens[0..unscored-1] are left out
  std::span<const TokenId>
      alternatives;  // the first of them has these tokens' log-probabilities too
};

// The history of draw `i` in [0, drafts] of a slice that samples: the tokens drawn before, and the
// first i draft tokens.
inline sampling::RowState HistoryOf(const SequenceSlice& slice, int i) {
  sampling::RowState state = *slice.sampler;
  state.output = state.output.first(state.output.size() - static_cast<size_t>(slice.drafts - i));
  state.mask = slice.masks[static_cast<size_t>(i)];
  return state;
}

// Copies one block's KV in every layer, before the forward pass (copy-on-write of a shared partial
// block).
struct BlockCopy {
  kv::BlockId from = 0;
  kv::BlockId to = 0;
};

struct StepPlan {
  uint64_t step = 0;                     // counts up from 1
  std::vector<BlockCopy> copies;         // in order, all before any slice
  std::vector<BlockCopy> window_copies;  // the same of blocks of layers with a window
  std::vector<SequenceSlice>
      slices;      // decode rows first, then prefill chunks; each sequence at most once
  int tokens = 0;  // sum of slices[i].tokens.size(), draft tokens included
  // Only batch-class sequences, without recurrent states: may be aborted for an urgent request.
  bool abortable = false;
};

struct SliceResult {
  Status status;                                  // a failure is this sequence's alone
  TokenId token = kNoToken;                       // set when sample; with drafts, draw 0
  std::optional<sampling::RowLogprobs> logprobs;  // set when the sampler asked for them
  // Draw 1 + i follows draft token i. kNoToken where there is none or the draw failed: a failure
  // then recurs as draw 0 of a later step, and only there fails the sequence.
  std::array<TokenId, kMaxDrafts> more_tokens = NoTokens();
  std::vector<sampling::RowLogprobs> more_logprobs;  // [drafts] when the sampler asked for them
  std::vector<sampling::RowLogprobs>
      prompt_logprobs;  // one per token of the slice that is scored and has a successor

  static constexpr std::array<TokenId, kMaxDrafts> NoTokens() {
    std::array<TokenId, kMaxDrafts> none{};
    none.fill(kNoToken);
    return none;
  }
};

struct StepResult {
  Status status;                    // not OK: the whole step failed and no KV it wrote counts
  bool aborted = false;             // aborted for an urgent request: no KV counts, but no failure
  std::vector<SliceResult> slices;  // same order and size as the plan's, when status is OK
  Duration forward{0};              // time of the model pass, measured by the runner
};

struct RunnerLimits {
  int kv_blocks = 0;        // blocks of kBlockTokens in the device's KV memory
  int max_step_tokens = 0;  // rows the scratch was sized for: a plan never holds more
  int max_step_slices = 0;
  // Blocks of the layers with a sliding window of `window` tokens, in memory of their own; 0: all
  // layers share `kv_blocks`.
  int window_blocks = 0;
  int window = 0;
  int state_slots = 0;  // slots of recurrent states; 0: the model has none
  int context = 0;      // tokens per sequence the model and its position tables allow
  int vocab_size = 0;
  size_t weight_bytes = 0;  // weights that a step reads, as stored in memory; 0: unknown
};

// The kinds of memory that a sequence has.
enum class MemoryKind {
  kBlock,        // by kv::BlockId: keys and values in the layers that keep all tokens
  kWindowBlock,  // by kv::SlotId: in layers with a window, with RunnerLimits::window_blocks
  kState,        // by kv::SlotId: recurrent state, with RunnerLimits::state_slots
};

// Owned by the code that creates the engine; called on the engine thread only.
class ModelRunner {
 public:
  virtual ~ModelRunner() = default;
  virtual RunnerLimits limits() const = 0;

  // Starts the step. The plan, and all it points to, stays unchanged until Collect returns. A CPU
  // runner does the whole step here; a GPU runner only enqueues it. At most one step is in flight.
  virtual void Launch(const StepPlan& plan) = 0;
  // Waits for the launched step and returns its result. Never throws; a failure is in the status.
  virtual StepResult Collect() = 0;

  // Makes later steps with StepPlan::abortable abort soon after `urgent` is set. `urgent` must
  // outlive all later calls; null turns this off. A runner may ignore it and finish every step.
  virtual void SetAbortFlag(const std::atomic<bool>* /*urgent*/) {}

  // Returns a result of Collect after use, so that its memory can be reused: in steady state a step
  // allocates nothing.
  virtual void Recycle(StepResult /*used*/) {}

  // Bytes of each kind of memory, for CopyOut and CopyIn. All 0: they cannot be copied.
  virtual kv::PrefixShape memory_shape() const { return {}; }
  // Copies one block or state, between steps. `out` and `in` have the bytes of its kind. What is
  // copied in has the bits of what was copied out, under the same weights and kernels.
  virtual void CopyOut(MemoryKind /*kind*/, int32_t /*id*/, std::span<std::byte> /*out*/) {}
  virtual void CopyIn(MemoryKind /*kind*/, int32_t /*id*/, std::span<const std::byte> /*in*/) {}
};

}  // namespace tutti::engine
