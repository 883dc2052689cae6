// Blocks of layers with a sliding window. Pure functions over plain values.
#pragma once

#include <algorithm>

#include "base/types.h"
#include "engine/options.h"

namespace tutti::engine {

// The first block that a query at `position`, or a later one, sees in a layer with a window: blocks
// before it are behind the window.
constexpr int FirstWindowBlock(int position, int window) {
  return position >= window ? (position - window + 1) / kBlockTokens : 0;
}

// Maximum number of blocks that `rows` consecutive queries see: those of their own tokens and of
// the window before them, at any position.
constexpr int WindowBlocks(int window, int rows) {
  return (window - 1 + rows + kBlockTokens - 2) / kBlockTokens + 1;
}

// Maximum number of blocks with a window that a sequence of `blocks` blocks holds: those that a
// step with `rows` of its tokens sees, and one for the source of a copy.
constexpr int MaxWindowBlocks(int window, int rows, int blocks) {
  return std::min(WindowBlocks(window, rows), blocks) + 1;
}

// Maximum number of prompt tokens of one sequence in a step. `max_step_tokens`: the runner's.
constexpr int MaxPromptRows(const SchedulerOptions& options, int max_step_tokens) {
  return std::min(std::max({options.prefill_chunk, options.prefill_chunk_alone, 1}),
                  max_step_tokens);
}

}  // namespace tutti::engine
