#include "kernels/spmd.h"

#include <atomic>
#include <exception>
#include <thread>
#include <vector>

#include "base/threads.h"

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
      SpinPause();
    } else {
      std::this_thread::yield();
    }
  }
}

void RunOnThreads(int workers, const std::function<void(int worker)>& body) {
  // No thread begins `body` before all have started: at a barrier, a thread would wait for ever for
  // one that the system refused to create.
  enum Start { kWait, kGo, kAbandon };
  std::atomic<int> start{kWait};
  const auto say = [&start](Start word) {
    start.store(word, std::memory_order_release);
    start.notify_all();
  };
  std::vector<std::jthread> threads;  // joined when this scope ends, however it ends
  try {
    for (int i = 1; i < workers; ++i) {
      threads.emplace_back([&start, &body, i] {
        start.wait(kWait, std::memory_order_acquire);
        if (start.load(std::memory_order_acquire) == kGo) body(i);
      });
    }
  } catch (const std::exception&) {
    say(kAbandon);
    throw;
  }
  say(kGo);
  body(0);
}

}  // namespace tutti::kernels
