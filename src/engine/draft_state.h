// DraftState: the draft model's state of one sequence (drafter.h). Part of a Sequence; made by the
// submitting thread, then used on the engine thread only.
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
  int confirmed = 0;                // ... so many, then the model's draft tokens
  std::array<TokenId, kMaxDrafts> proposed{};
  uint64_t used_in = 0;  // the drafter's last run for it
  AcceptanceStats hits{DraftSource::kModel};
  int streak = 0;       // draft tokens of it that came true one after the other
  int passed_over = 0;  // steps in which it could have been asked and was not

  // Drops KV of draft tokens that differ from the sequence's `tokens`. The last token counts as
  // unknown: it is computed again to draw the token that follows it.
  void Settle(std::span<const TokenId> tokens);
  // Number of tokens before the last one whose KV is missing.
  int Backlog(std::span<const TokenId> tokens) const {
    return static_cast<int>(tokens.size()) - 1 - known;
  }
};

}  // namespace tutti::engine
