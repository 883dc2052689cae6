// Drafter: a second, smaller model of the same vocabulary, which says what comes next before the
// model itself is asked. It holds a KV memory of its own, drives a ModelRunner of its own and draws
// the likeliest token each time; whether that was right is the scheduler's to find out.
//
// Owned by a DecoderSlot; engine thread. Points to sequences that hold blocks of it, from their
// first run to Release(). Nothing it meets is an error: a sequence for which it has no memory left,
// or whose rows fail, gets no proposals any more.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "api/types.h"
#include "engine/model_runner.h"
#include "engine/sequence.h"
#include "engine/step_plan.h"

namespace tutti::engine {

// What one sequence is to get in a step: either.
struct DraftAsk {
  Sequence* sequence = nullptr;
  int row = 0;                                // of the step's plan
  int catch_up = 0;                           // tokens of it to read, at most its backlog; or:
  int wanted = 0;                             // tokens to propose, at most kMostDrafts
  std::array<TokenId, kMostDrafts> tokens{};  // proposed:
  int count = 0;                              // so many of them, at most `wanted`
};

// What a run took.
struct DraftTimes {
  int rows_read = 0;  // of catching up
  Duration reading{0};
  int sequences = 0, passes = 0;  // of proposing
  Duration proposing{0};
};

class Drafter {
 public:
  // `runner` outlives it and is used by nobody else.
  explicit Drafter(ModelRunner* runner);

  // Every sequence at most once, at most kMostDraftSequences; their `draft` is settled.
  DraftTimes Run(std::span<DraftAsk> asks);
  // Of a sequence that leaves, or is to have no proposals: its blocks are free. Idempotent.
  void Release(Sequence& sequence);

  int free_blocks() const { return static_cast<int>(free_.size()); }

 private:
  void Read(std::span<DraftAsk> asks, DraftTimes& times);
  void Propose(std::span<DraftAsk> asks, DraftTimes& times);
  void SwitchOff(Sequence& sequence);  // and Release
  // Blocks for the first `tokens` tokens; from sequences that have no part in this run if need be.
  bool Grow(Sequence& sequence, int tokens);
  bool EvictOne();
  void AddSlice(const Sequence& sequence, std::span<const TokenId> tokens, int start, bool sample);
  // Runs the plan. False when the step failed as a whole: of it only the time counts.
  bool RunPlan(Duration& took);

  ModelRunner& runner_;
  const RunnerLimits limits_;
  const api::SamplingParams greedy_;
  sampling::RowState sampler_;
  std::vector<kv::BlockId> free_;
  std::vector<Sequence*> holders_;  // of blocks
  uint64_t runs_ = 0;

  // Of the plan in progress; kept to reuse their memory.
  StepPlan plan_;
  StepResult result_;
  std::vector<DraftAsk*> planned_;  // by slice
};

}  // namespace tutti::engine
