// Drafter: runs the draft model of speculative decoding, a second, smaller model of the same
// vocabulary. It drives its own ModelRunner, has its own KV blocks, and drafts greedily: the
// likeliest token each time. The scheduler verifies the draft tokens.
//
// Owned by a DecoderInstance; engine thread. Keeps pointers to the sequences that hold its blocks,
// from their first Run() to Release(). It reports no errors: a sequence that gets no memory, or
// whose rows fail, gets no further draft tokens.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "api/types.h"
#include "engine/model_runner.h"
#include "engine/sequence.h"

namespace tutti::engine {

// The draft model's task for one sequence in a step: to read `catch_up` tokens that it has not seen
// yet, or to propose up to `wanted` tokens.
struct DraftRequest {
  Sequence* sequence = nullptr;
  int row = 0;                               // of the step's plan
  int catch_up = 0;                          // tokens of it to read, at most its backlog; or:
  int wanted = 0;                            // tokens to propose, at most kMaxDrafts
  std::array<TokenId, kMaxDrafts> tokens{};  // proposed:
  int count = 0;                             // number of tokens in it, at most `wanted`
};

// Measured work and time of one Run(); later steps use it to decide whether drafting pays.
struct DraftTimes {
  int rows_read = 0;  // of catching up
  Duration reading{0};
  int sequences = 0, passes = 0;  // of proposing
  Duration proposing{0};
};

class Drafter {
 public:
  // `runner` must outlive the Drafter, which is its only user.
  explicit Drafter(ModelRunner* runner);

  // Does the tasks of one step: at most one for each sequence, at most kMaxDraftSequences in all.
  // The sequences' `draft` states are up to date (sequence.h).
  DraftTimes Run(std::span<DraftRequest> asks);
  // Frees the blocks of a sequence that ends or is to get no further draft tokens. Idempotent.
  void Release(Sequence& sequence);

  int free_blocks() const { return static_cast<int>(free_.size()); }

 private:
  void Read(std::span<DraftRequest> asks, DraftTimes& times);
  void Propose(std::span<DraftRequest> asks, DraftTimes& times);
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

  // The plan in progress; members so that their memory is reused.
  StepPlan plan_;
  StepResult result_;
  std::vector<DraftRequest*> planned_;  // by slice
};

}  // namespace tutti::engine
