// Running the same function on several threads at once, for measurements and tests of kernels.
//
// The engine has its own pool; this one starts threads and joins them, which costs tens of
// microseconds.
#pragma once

#include <atomic>
#include <functional>

namespace tutti::kernels {

// A barrier that spins (it yields after a while, so that it also ends on fewer cores than threads).
// Reusable.
class SpinBarrier {
 public:
  explicit SpinBarrier(int threads) : threads_(threads) {}
  void Wait();

 private:
  const int threads_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<int> generation_{0};
};

// Calls body(worker) for worker 0..workers-1, worker 0 on the calling thread, and returns when all
// have.
void RunOnThreads(int workers, const std::function<void(int worker)>& body);

}  // namespace tutti::kernels
