// How much a test runs. Sanitized builds are ten times slower and more: they run `few` where others
// run `many`, and so does a run with TUTTI_TEST_SHORT set. Any thread.
#pragma once

#include <cstdlib>

#include "sanitized.h"

namespace tutti::support {

inline bool ShortRun() { return Sanitized() || std::getenv("TUTTI_TEST_SHORT") != nullptr; }

inline int Amount(int many, int few) { return ShortRun() ? few : many; }

// Where the full amount takes too long for every run of the suite: `full` runs only with
// TUTTI_TEST_FULL set, as `make soak` does, and `sample` otherwise.
inline int Amount(int full, int sample, int few) {
  if (ShortRun()) return few;
  return std::getenv("TUTTI_TEST_FULL") != nullptr ? full : sample;
}

}  // namespace tutti::support
