#include "model/spin_barrier.h"

#include <sched.h>

namespace tutti::model {

void SpinBarrier::Wait() {
  constexpr int kPausesBeforeYield = 2000;  // about 50 us: longer than any balanced phase's difference
  // Nobody can pass this generation before we arrive, so a relaxed read is the current one.
  const uint32_t generation = generation_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == parties_ - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.store(generation + 1, std::memory_order_release);
    return;
  }
  int pauses = 0;
  while (generation_.load(std::memory_order_acquire) == generation) {
    if (++pauses < kPausesBeforeYield) {
      SpinPause();
    } else {
      sched_yield();
    }
  }
}

}  // namespace tutti::model
