// Truncation of a dialog's history for the prompt of its next turn. Pure; any thread.
//
// Whole turns are omitted, oldest first; the system prompt and the new message always stay.
// Omitting one more turn each time would change the beginning of every prompt and so defeat the
// prefix cache. Therefore a cut removes a quarter of the window at once and holds until the window
// is full again; between cuts prompts only grow at their end.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"

namespace tutti::sessions {

struct ContextWindow {
  int limit = 3000;      // tokens of a prompt, at most
  bool truncate = true;  // false: a dialog that does not fit is refused
};

struct ContextCut {
  size_t first = 0;    // first turn in the prompt
  size_t dropped = 0;  // turns that this cut omits in addition to the last one
};

// `turn_tokens`: tokens of each committed turn, question and answer together, oldest first.
// `first`: first turn after the last cut. `fixed_tokens`: tokens that cannot be omitted. Errors:
// context_length_exceeded, with the numbers.
Result<ContextCut> FitContext(const ContextWindow& window, std::span<const int> turn_tokens,
                              size_t first, int fixed_tokens);

}  // namespace tutti::sessions
