// How much of a dialog goes into the prompt of its next turn. Pure; any thread.
//
// Whole turns are left out, oldest first; what the system says and the new message always stay.
// Cutting one turn each time would change the prompt's beginning each time, and with it all that
// the prefix cache holds of the dialog. So a cut takes a quarter of the window at once, and holds
// until the window is full again: between cuts a prompt only grows at its end.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"

namespace tutti::sessions {

struct ContextWindow {
  int limit = 3000;      // tokens of a prompt, at most
  bool truncate = true;  // else a dialog that does not fit is refused
};

struct ContextCut {
  size_t first = 0;    // turn that is the first to go into the prompt
  size_t dropped = 0;  // turns left out now that were not before
};

// `turn_tokens`: of each committed turn, user's and assistant's together, oldest first.
// `first`: what the last cut left as the first. `fixed_tokens`: all that cannot be left out.
// Errors: context_length_exceeded, with the numbers.
Result<ContextCut> FitContext(const ContextWindow& window, std::span<const int> turn_tokens,
                              size_t first, int fixed_tokens);

}  // namespace tutti::sessions
