// Counts, or fails, the allocations of a thread. Only in the test program of this folder, and not
// under sanitizers, which bring their own operators: defined in allocation_count_test.cc.
#pragma once

#include <cstddef>

#ifndef TUTTI_SANITIZED
namespace tutti::engine::testing {

struct AllocationCount {
  bool armed = false;
  size_t allocations = 0;
  size_t ignored_size = 0;  // allocations of exactly this size are counted apart
  size_t ignored = 0;
  size_t fail_at = 0;  // while armed: the one with this number throws std::bad_alloc; 0 = none
};

extern thread_local AllocationCount allocation_count;

}  // namespace tutti::engine::testing
#endif
