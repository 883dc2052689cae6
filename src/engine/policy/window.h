// Blocks of layers with a sliding window. Pure functions over plain values.
#pragma once

#include "base/types.h"

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

}  // namespace tutti::engine
