// How much a test runs. Sanitized builds are ten times slower and more: they run `few` where others
// run `many`, and so does whoever sets TUTTI_TEST_SHORT. Any thread.
#pragma once

#include <cstdlib>

namespace tutti::support {

inline bool ShortRun() {
#ifdef TUTTI_SANITIZED
  return true;
#else
  return std::getenv("TUTTI_TEST_SHORT") != nullptr;
#endif
}

inline int Amount(int many, int few) { return ShortRun() ? few : many; }

}  // namespace tutti::support
