// PromptLookup: finds where the last tokens of a sequence stood before, in its prompt or its
// output, and proposes what followed there ("prompt lookup decoding", A. Saxena 2023).
//
// An index of the last place of every pair and triple of tokens, so that a token costs the same
// however long the text is; and a place that proved right is followed as long as it does. Part of a
// Sequence: set up by the thread that submits, then the engine thread's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "engine/policy/draft_gain.h"

namespace tutti::engine {

class PromptLookup {
 public:
  // Takes the memory for sequences of up to `target_tokens`, and reads `prompt`. Without it nothing
  // is ever found.
  void Begin(int target_tokens, std::span<const TokenId> prompt);

  // Reads the tokens that came since; `tokens` begins with those it was given before. What was
  // proposed for them, taken or not, is counted in hits() and `everybody`.
  void Advance(std::span<const TokenId> tokens, DraftHits& everybody);

  // Index of the token proposed to follow the last one read, or -1. The one at the next index
  // follows it, and so on: past the end of the text into what was proposed before.
  int source() const { return source_; }
  // Tokens before source() that are the text's last ones, as far as they were compared; >= 2.
  int agreed() const { return agreed_; }
  const DraftHits& hits() const { return hits_; }

 private:
  uint32_t& PlaceOf(std::span<const TokenId> tokens, int end, int count);
  void Find(std::span<const TokenId> tokens);
  void Enter(std::span<const TokenId> tokens);

  std::vector<uint32_t> places_;  // hash of a pair or triple -> index after it, 0 = none
  int read_ = 0;                  // tokens
  int source_ = -1;
  int agreed_ = 0;
  DraftHits hits_;
};

}  // namespace tutti::engine
