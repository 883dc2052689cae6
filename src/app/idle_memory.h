// IdleMemory: gives what the allocator keeps of small blocks back to the system once a server is
// idle. The heap of glibc returns only what is free at its end: after floods of many small requests
// hundreds of megabytes in pieces would stay with the process (seen: 586 MiB, 253 after a trim).
//
// Owner and thread: the one that waits for signals.
#pragma once

#include <chrono>
#include <cstddef>

#include "base/clock.h"

namespace tutti::app {

class IdleMemory {
 public:
  static constexpr Duration kIdle = std::chrono::seconds(5);
  static constexpr size_t kWorthIt = size_t{16} << 20;  // bytes more that are free than last time

  // To be called now and then. After kIdle without requests it gives back what is free, if that has
  // grown; never before, as allocations wait meanwhile (milliseconds).
  void Look(bool busy, TimePoint now);

 private:
  TimePoint looked_{};  // or when it was busy
  size_t kept_ = 0;     // bytes that were free after the last time, given back or not
};

}  // namespace tutti::app
