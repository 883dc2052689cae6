// ForcedDrafts: a source of draft tokens: the tokens of text that a request's grammar forces.
//
// Part of a Sequence; engine thread. Guesses are compared with the tokens that were drawn, whether
// they were used as draft tokens or not, so that the acceptance rate is known.
#pragma once

#include <span>
#include <vector>

#include "base/types.h"
#include "engine/policy/draft_gain.h"
#include "grammar/forced_text.h"

namespace tutti::engine {

class ForcedDrafts {
 public:
  // Enables guessing; without this call there are no guesses. The first `read` tokens of the
  // sequence are its prompt.
  void Begin(int read);

  // Reads the tokens drawn since the last call and guesses the next ones. `matcher` is the
  // grammar's state after the last token.
  void Advance(std::span<const TokenId> tokens, grammar::Matcher& matcher,
               AcceptanceStats& everybody);

  std::span<const TokenId> next() const { return next_; }
  int agreed() const { return agreed_; }  // right guesses before next()
  const AcceptanceStats& hits() const { return hits_; }

 private:
  grammar::ForcedText text_;
  std::vector<TokenId> next_;
  int read_ = -1;  // tokens of the sequence; below 0: not begun
  int agreed_ = 0;
  AcceptanceStats hits_;
};

}  // namespace tutti::engine
