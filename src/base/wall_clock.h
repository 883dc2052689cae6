// Wall-clock time, for stored and displayed times; timeouts use base/clock.h.
#pragma once

#include <chrono>
#include <cstdint>

namespace tutti {

// Since 1970.
inline int64_t UnixMillis() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}
inline int64_t UnixSeconds() { return UnixMillis() / 1000; }

}  // namespace tutti
