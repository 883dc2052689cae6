// Where the recurrent state of a sequence is copied to a checkpoint. Pure functions over plain
// values; all positions are numbers of tokens from the beginning of the sequence.
#pragma once

#include <algorithm>
#include <climits>

#include "base/types.h"

namespace tutti::engine {

// A prompt is copied every so many tokens, so that prompts with a common beginning find a
// checkpoint near its end.
inline constexpr int kCheckpointInterval = 16 * kBlockTokens;
// Below this, computing the prompt again costs less than the additional step that a checkpoint at
// its last block boundary needs.
inline constexpr int kShortestCheckpoint = 2 * kBlockTokens;

struct CheckpointView {
  int start = 0;       // tokens in the state
  int size = 0;        // tokens that the sequence has; all but the last are computed before a draw
  int prompt = 0;      // tokens of its prompt
  bool cached = true;  // the prefix index may keep checkpoints of it
  bool forks = false;  // other choices of the request wait to start from its prompt
  int branch = 0;      // end of a known beginning that has no checkpoint; 0: none
};

// The first position after `start` at which a checkpoint is wanted, INT_MAX if none is. A slice
// must not cross it.
inline int NextCheckpoint(const CheckpointView& v) {
  const int fork = v.forks && v.prompt - 1 > v.start ? v.prompt - 1 : INT_MAX;
  if (!v.cached) return fork;
  const int next_block = (v.start / kBlockTokens + 1) * kBlockTokens;
  if (v.start >= v.size - 1) return next_block;  // a decode row, or the last of a prompt
  int next = (v.start / kCheckpointInterval + 1) * kCheckpointInterval;
  const auto consider = [&](int position) {
    if (position > v.start) next = std::min(next, position);
  };
  consider(v.branch);
  const int last_boundary = (v.size - 1) / kBlockTokens * kBlockTokens;
  if (last_boundary >= kShortestCheckpoint) consider(last_boundary);
  return std::min(next, fork);
}

}  // namespace tutti::engine
