// PromptLookup: a source of draft tokens: finds an earlier place in the prompt or output with the
// same last tokens, and proposes the tokens that followed there ("prompt lookup decoding",
// A. Saxena 2023).
//
// An index holds the last place of every pair and triple of tokens, so that the cost per token does
// not depend on the length of the text. A place is followed as long as its tokens are accepted.
// Part of a Sequence: set up by the submitting thread, then used on the engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "engine/policy/draft_gain.h"

namespace tutti::engine {

class PromptLookup {
 public:
  // Allocates memory for a sequence of up to `target_tokens` and reads `prompt`. Without this call
  // no place is ever found.
  void Begin(int target_tokens, std::span<const TokenId> prompt);

  // Reads the tokens drawn since the last call; `tokens` is the whole sequence. Correct and wrong
  // draft tokens, used or not, are counted in hits() and in `everybody`, the counts of all
  // sequences.
  void Advance(std::span<const TokenId> tokens, AcceptanceStats& everybody);

  // Index of the token proposed to follow the last one read, or -1. The one at the next index
  // follows it, and so on: past the end of the text into what was proposed before.
  int source() const { return source_; }
  // Tokens before source() that equal the text's last ones, as far as they were compared; >= 2.
  int agreed() const { return agreed_; }
  const AcceptanceStats& hits() const { return hits_; }

 private:
  uint32_t& PlaceOf(std::span<const TokenId> tokens, int end, int count);
  void Find(std::span<const TokenId> tokens);
  void Enter(std::span<const TokenId> tokens);

  std::vector<uint32_t> places_;  // hash of a pair or triple -> index after it, 0 = none
  int read_ = 0;                  // tokens
  int source_ = -1;
  int agreed_ = 0;
  AcceptanceStats hits_;
};

}  // namespace tutti::engine
