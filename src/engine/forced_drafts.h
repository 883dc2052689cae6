// ForcedDrafts: tokens that the grammar of a request forces, as a source of proposals.
//
// Part of a Sequence; engine thread. Guesses are compared with what came whether they were proposed
// or not, so that the chance of the next one is known.
#pragma once

#include <span>
#include <vector>

#include "base/types.h"
#include "engine/policy/draft_gain.h"
#include "grammar/forced_text.h"

namespace tutti::engine {

class ForcedDrafts {
 public:
  // Without this call nothing is ever guessed. The first `read` tokens of the sequence are its
  // prompt.
  void Begin(int read);

  // Reads the tokens that came since, and guesses what follows them; `matcher` stands behind the
  // last one.
  void Advance(std::span<const TokenId> tokens, grammar::Matcher& matcher, DraftHits& everybody);

  std::span<const TokenId> next() const { return next_; }
  int agreed() const { return agreed_; }  // guesses before next() that came true
  const DraftHits& hits() const { return hits_; }

 private:
  grammar::ForcedText text_;
  std::vector<TokenId> next_;
  int read_ = -1;  // tokens of the sequence; below 0: not begun
  int agreed_ = 0;
  DraftHits hits_;
};

}  // namespace tutti::engine
