#include "app/process/idle_memory.h"

#include <malloc.h>

#include <algorithm>

namespace tutti::app {

void IdleMemory::Look(bool busy, TimePoint now) {
  if (busy || looked_ == TimePoint()) looked_ = now;
  if (busy || now - looked_ < kIdle) return;
  looked_ = now;
  const size_t free_bytes = mallinfo2().fordblks;  // of all arenas
  if (free_bytes < kept_ + kWorthIt) {
    kept_ = std::min(kept_, free_bytes);
    return;
  }
  malloc_trim(0);
  kept_ = mallinfo2().fordblks;
}

}  // namespace tutti::app
