// Why the prefix cache did not have more of a prompt. Pure functions over plain values; all amounts
// are tokens from the beginning of the prompt.
#pragma once

#include "api/types.h"

namespace tutti::engine {

struct PrefixView {
  int cached = 0;            // found
  int reusable = 0;          // that could be found
  bool looked_up = false;    // the request may use the prefix cache
  int known = 0;             // in the index, whether a hit may end there or not
  bool load_failed = false;  // files had more, and were not read
  bool evicted = false;      // as PrefixIndex::Explanation
  bool other_salt = false;   // the same
  bool windowed = false;     // layers with a window have memory of their own
};

inline api::PrefixReport::Cause CauseOf(const PrefixView& v) {
  using enum api::PrefixReport::Cause;
  if (!v.looked_up) return kOff;
  if (v.cached >= v.reusable) return kNone;
  // The blocks are there. A state exists at checkpoints only; blocks of windows are evicted alone.
  if (v.known > v.cached) return v.windowed ? kEvicted : kNotBlockAligned;
  if (v.load_failed) return kOnDiskFailed;
  if (v.evicted) return kEvicted;
  return v.other_salt ? kDifferentSalt : kNeverSeen;
}

}  // namespace tutti::engine
