// Time as tests of linearity judge it: this thread's own, so that a busy machine does not decide.
// Any thread. Seconds.
#pragma once

#include <ctime>

namespace tutti::support {

#if defined(TUTTI_SANITIZED) || defined(TUTTI_DEBUG)
inline constexpr double kSlower = 20;  // what a sanitizer may cost
#else
inline constexpr double kSlower = 1;
#endif

inline double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace tutti::support
