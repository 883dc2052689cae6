#include "kernels/spmd.h"

#include <thread>
#include <vector>

namespace tutti::kernels {

void SpinBarrier::Wait() {
  const int generation = generation_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == threads_ - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.store(generation + 1, std::memory_order_release);
    return;
  }
  int spins = 0;
  while (generation_.load(std::memory_order_acquire) == generation) {
    if (++spins < 2000) {
      __builtin_ia32_pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void RunOnThreads(int workers, const std::function<void(int worker)>& body) {
  std::vector<std::thread> threads;
  for (int i = 1; i < workers; ++i) threads.emplace_back(body, i);
  body(0);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tutti::kernels
