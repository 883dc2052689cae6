// FakeModelRunner: a ModelRunner without a model, for tests and simulation. Its token depends on
// the whole history of the sequence as it stands in the KV blocks that earlier slices wrote, so a
// wrong, stale or overwritten block changes the output and is reported at once in violations().
//
// With `limits.state_slots` the token depends on a recurrent state too: a number that every token
// changes once, in the slot of the slice. A state that is stale, another sequence's or updated
// twice does not match its position, and changes the output.
//
// With `limits.window_blocks` every row is also written to the blocks of the layers with a window,
// and a slice checks the rows there that its own see.
//
// An adapter is only a name, which all hashes depend on.
//
// Every slot of a block holds the token written there, its position, and a hash chained over all
// tokens before it. A slice reads the chain before its start through its block table, checks every
// link, and continues it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/model_runner.h"
#include "engine/token_text.h"
#include "sampling/sampler.h"

namespace tutti::engine::testing {

struct FakeModelOptions {
  RunnerLimits limits{.kv_blocks = 64,
                      .max_step_tokens = 4096,
                      .max_step_slices = 64,
                      .context = 4096,
                      .vocab_size = 64};
  // True: makes a row of logits and runs the whole sampling chain. False: a token straight from the
  // hash (and the random number where the temperature is not 0), which is much faster and keyed by
  // the same things.
  bool sample_rows = true;
  // True: most tokens follow from the one before alone, so that texts run in circles and what
  // followed a token earlier is a fair guess at what follows it now.
  bool repeats_itself = false;
  // Models of different salt say different things: of `parts` in 8 tokens.
  uint64_t salt = 0;
  int salted_parts = 8;
};

class FakeAdapter final : public Adapter {
 public:
  explicit FakeAdapter(std::string name) : Adapter(std::move(name)) {}
};

class FakeModelRunner : public ModelRunner {
 public:
  explicit FakeModelRunner(const FakeModelOptions& options);

  RunnerLimits limits() const override { return options_.limits; }
  void Launch(const StepPlan& plan) override;
  StepResult Collect() override;
  void SetAbortFlag(const std::atomic<bool>* urgent) override { urgent_ = urgent; }
  void Recycle(StepResult used) override;
  kv::PrefixShape memory_shape() const override;
  void CopyOut(MemoryKind kind, int32_t id, std::span<std::byte> out) override;
  void CopyIn(MemoryKind kind, int32_t id, std::span<const std::byte> in) override;

  // The expected output of the sequence, computed from its tokens alone: the solo output of any
  // request.
  std::vector<TokenId> Solo(const std::vector<TokenId>& prompt, const sampling::RowState& state,
                            int max_tokens, const std::vector<TokenId>& end_tokens = {},
                            const Adapter* adapter = nullptr);

  // Called for each slice (its sequence id) or for each step (0): a status that is not OK is its
  // result.
  std::function<Status(const StepPlan&, const SequenceSlice*)> fault;
  // Called at the end of Launch; a timing runner moves its clock here.
  std::function<Duration(const StepPlan&)> step_time;

  // Beliefs about the engine that did not hold: empty in a correct run.
  const std::vector<std::string>& violations() const { return violations_; }
  uint64_t steps() const { return steps_; }
  uint64_t aborted() const { return aborted_steps_; }  // counted in steps() too
  uint64_t tokens_computed() const { return tokens_computed_; }
  int largest_step_tokens() const { return largest_step_tokens_; }

 private:
  struct Slot {
    TokenId token = kNoToken;
    int position = -1;
    uint64_t hash = 0;
  };
  struct State {
    int tokens = -1;  // in it; -1: not written, or spoiled
    uint64_t value = 0;
  };
  struct BlockUse {
    uint64_t step = 0;
    uint32_t sequence = 0;
    bool written = false;
  };
  Slot& At(const SequenceSlice& slice, int position);
  // The memory of a block or state; a violation and empty during a step or out of range.
  std::span<std::byte> MemoryOf(MemoryKind kind, int32_t id);
  void Violate(std::string text);
  void Spoil(const StepPlan& plan);
  void SpoilStates(const SequenceSlice& slice);
  void CheckPlan(const StepPlan& plan);
  void CheckStates(const StepPlan& plan);
  void CheckUses(const SequenceSlice& slice, std::span<const kv::BlockId> blocks,
                 std::vector<BlockUse>& uses);
  Slot& WindowAt(const SequenceSlice& slice, int position);
  void ReadWindow(const SequenceSlice& slice);
  uint64_t ReadHistory(const SequenceSlice& slice);
  State LoadState(const SequenceSlice& slice);
  void RunSlice(const SequenceSlice& slice, SliceResult& result);
  void FillRow(uint64_t hash);
  uint64_t KeyOf(uint64_t hash, TokenId last) const;  // what decides the token after `last`
  TokenId Next(uint64_t key, const sampling::RowState& state, Status* status,
               std::optional<sampling::RowLogprobs>* logprobs);

  const FakeModelOptions options_;
  std::vector<Slot> slots_;            // [kv_blocks][kBlockTokens]
  std::vector<BlockUse> uses_;         // [kv_blocks]
  std::vector<Slot> window_slots_;     // [window_blocks][kBlockTokens]
  std::vector<BlockUse> window_uses_;  // [window_blocks]
  bool window_missing_ = false;  // a table was wrong, which was reported: it is not read again
  std::vector<State> states_;    // [state_slots]
  std::vector<float> row_;
  sampling::SamplerScratch scratch_;
  StepResult result_, spare_;
  const std::atomic<bool>* urgent_ = nullptr;
  bool in_flight_ = false;
  std::vector<std::string> violations_;
  uint64_t steps_ = 0, aborted_steps_ = 0, tokens_computed_ = 0;
  int largest_step_tokens_ = 0;
};

// Moves `clock` by a scripted time for each step: base + per_decode_row * rows + per_prefill_token
// * tokens. Proves order, overlap and limits; says nothing about speed.
struct TimingModel {
  Duration base = std::chrono::milliseconds(5);
  Duration per_decode_row = std::chrono::microseconds(100);
  Duration per_prefill_token = std::chrono::microseconds(400);
  Duration TimeOf(const StepPlan& plan) const;
};

class TimingRunner final : public FakeModelRunner {
 public:
  TimingRunner(const FakeModelOptions& options, const TimingModel& model, ManualClock* clock)
      : FakeModelRunner(options) {
    step_time = [model, clock](const StepPlan& plan) {
      const Duration took = model.TimeOf(plan);
      clock->Advance(took);
      return took;
    };
  }
};

// Token i reads as "<letters> ": plain ASCII, with a few tokens that are part of a longer UTF-8
// character when `split_characters`.
class FakeTokenText final : public TokenText {
 public:
  explicit FakeTokenText(bool split_characters = false) : split_(split_characters) {}
  void AppendBytes(TokenId id, bool first, bool skip_special, std::string& bytes) const override;
  bool IsSpecial(TokenId id) const override { return id == 0; }

 private:
  const bool split_;
};

}  // namespace tutti::engine::testing
