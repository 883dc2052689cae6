// Time as tests of linearity judge it: this thread's own, so that a busy machine does not decide.
// Any thread. Seconds.
#pragma once

#include <ctime>

#include "sanitized.h"

namespace tutti::support {

// How often longer than the release build's a program's times may be.
#ifdef TUTTI_DEBUG
inline const double kSlower = 20;
#else
inline const double kSlower = Sanitized() ? 20 : 1;
#endif

inline double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace tutti::support
