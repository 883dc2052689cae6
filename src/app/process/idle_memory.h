// IdleMemory: returns free heap memory to the system (malloc_trim) when a server is idle. glibc
// returns only memory at the end of the heap by itself; after many small requests hundreds of
// megabytes of fragments would stay with the process (measured: 586 MiB, 253 after a trim).
//
// Owned and used by the thread that waits for signals.
#pragma once

#include <chrono>
#include <cstddef>

#include "base/clock.h"

namespace tutti::app {

class IdleMemory {
 public:
  static constexpr Duration kIdle = std::chrono::seconds(5);
  static constexpr size_t kWorthIt = size_t{16} << 20;  // bytes more that are free than last time

  // Called periodically. After kIdle without requests it trims the heap if free memory has grown;
  // not earlier, because allocations block during a trim (milliseconds).
  void Look(bool busy, TimePoint now);

 private:
  TimePoint looked_{};  // or when it was busy
  size_t kept_ = 0;     // bytes that were free after the last time, given back or not
};

}  // namespace tutti::app
