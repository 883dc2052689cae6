// DirectDriver: sequences run straight through a ModelRunner, without an engine.
//
// For tests that say exactly which rows share a step: the caller is the scheduler. Keeps block
// tables and samplers, nothing else. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "engine/model_runner.h"

namespace tutti::runner {

// Parameters that take the most probable token and no random number.
api::SamplingParams GreedyParams();

class DirectDriver {
 public:
  // A sequence's share of one step.
  struct Part {
    int sequence = 0;
    std::vector<TokenId> tokens;  // to append, at least one
    bool sample = true;
    int prompt_logprobs = -1;  // as in engine::SequenceSlice
    TokenId next_token = kNoToken;
    int drafts = 0;  // the last so many of `tokens` are draft tokens, as in engine::SequenceSlice
  };

  // `block_seed` not 0: hands out KV blocks in a shuffled order instead of ascending. A runner
  // whose layers with a window have blocks of their own has as many of them.
  explicit DirectDriver(engine::ModelRunner& runner, uint64_t block_seed = 0);

  // Returns the sequence's number.
  int NewSequence(api::SamplingParams params = GreedyParams(), uint64_t seed = 0);
  // Of all its steps from now on; outlives them.
  void SetAdapter(int sequence, const engine::Adapter* adapter) { Of(sequence).adapter = adapter; }
  // A sequence that starts with the first `tokens` tokens of `other`, reading other's blocks where
  // they are full and a copy of the last one where it is not. With recurrent states it must have
  // all tokens of `other`, which takes no step before the fork's first one.
  int Fork(int other, int tokens);
  // Forgets the sequence's cache, as preemption does: it starts again at position 0. Tokens drawn
  // are kept.
  void Evict(int sequence);

  int length(int sequence) const { return Of(sequence).length; }
  const std::vector<TokenId>& output(int sequence) const { return Of(sequence).output; }

  // One step with these parts, in this order. Sampled tokens are added to output(): with draft
  // tokens, the accepted ones and one more; the cache keeps the KV of those. Errors: the step's
  // own; a part's is in its result. resource_exhausted when the pool has no block left.
  Result<engine::StepResult> Step(std::span<const Part> parts);

  // Appends tokens in steps of at most `chunk`, sampling after the last; returns the drawn token.
  Result<TokenId> Prefill(int sequence, std::span<const TokenId> tokens, int chunk);
  // One step in which every sequence appends `feed[i]` and draws its next token, which replaces
  // feed[i].
  Status Decode(std::span<const int> sequences, std::vector<TokenId>& feed);

 private:
  struct Sequence {
    api::SamplingParams params;
    sampling::RowState sampler;
    std::vector<TokenId> prompt, output;
    std::vector<kv::BlockId> blocks;
    std::vector<bool> owned;          // blocks[i] goes back to the pool with this sequence
    std::vector<kv::SlotId> windows;  // the same blocks, none behind the window of the next token
    int length = 0;                   // tokens in the cache
    const engine::Adapter* adapter = nullptr;
    kv::SlotId state = kv::kNoSlot;
    kv::SlotId state_from = kv::kNoSlot;  // of the sequence it was forked from
  };
  const Sequence& Of(int sequence) const { return *sequences_[static_cast<size_t>(sequence)]; }
  Sequence& Of(int sequence) { return *sequences_[static_cast<size_t>(sequence)]; }
  Status Cover(Sequence& sequence, int tokens);

  engine::ModelRunner& runner_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  std::vector<kv::BlockId> free_;          // taken from the back
  std::vector<engine::BlockCopy> copies_;  // for the next step
  engine::StepPlan plan_;
  uint64_t step_ = 0;
};

}  // namespace tutti::runner
