// DraftState: what the second model (drafter.h) holds of one sequence. Part of a Sequence; made by
// the thread that submits, then the engine thread's.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "engine/policy/draft_gain.h"
#include "kv/types.h"

namespace tutti::engine {

struct DraftState {
  bool on = false;                  // the model may propose for this sequence
  std::vector<kv::BlockId> blocks;  // of the model's own KV memory; capacity for all it may need
  int known = 0;                    // tokens whose KV is in them: the sequence's own first ...
  int confirmed = 0;                // ... so many, then the model's proposals
  std::array<TokenId, kMostDrafts> proposed{};
  uint64_t used_in = 0;  // the drafter's last run for it
  DraftHits hits{DraftSource::kModel};
  int streak = 0;       // proposals of it that came true one after the other
  int passed_over = 0;  // steps in which it could have been asked and was not

  // Keeps what is still true now that the sequence has `tokens`. The last token counts as unknown:
  // what follows it is drawn by computing it again.
  void Settle(std::span<const TokenId> tokens);
  // Tokens to compute before the last one.
  int Backlog(std::span<const TokenId> tokens) const {
    return static_cast<int>(tokens.size()) - 1 - known;
  }
};

}  // namespace tutti::engine
