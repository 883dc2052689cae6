// Running the same function on several threads at once, for measurements and tests of kernels.
//
// The engine has its own pool; this one starts threads and joins them, which costs tens of
// microseconds.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <vector>

#include "kernels/machine_limits.h"

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

// Seconds of one call that all workers make together: the best of many short trials in about
// `seconds`. make(worker, barrier) gives the worker's function call(number), in which the workers
// may meet at the barrier. `trials` gets the seconds of a call in each trial.
template <typename Make>
double BestSecondsPerCall(int workers, double seconds, const Make& make,
                          std::vector<double>* trials = nullptr) {
  constexpr double kTrialSeconds = 0.004;
  constexpr int kMinTrials = 4;
  SpinBarrier barrier(workers);
  double best = 1e9;
  int repeats = 1;
  bool stop = false;
  RunOnThreads(workers, [&](int worker) {
    auto call = make(worker, barrier);
    size_t number = 0;
    const double deadline = MonotonicSeconds() + seconds;
    for (int trial = 0;; ++trial) {
      barrier.Wait();
      if (stop) return;
      const int count = repeats;
      const double begin = MonotonicSeconds();
      for (int i = 0; i < count; ++i) call(number++);
      const double end = MonotonicSeconds();
      if (worker == 0) {
        const double each = (end - begin) / count;
        if (trial > 0) best = std::min(best, each);
        if (trial > 0 && trials != nullptr) trials->push_back(each);
        repeats = std::max(1, static_cast<int>(kTrialSeconds / each));
        stop = trial >= kMinTrials && end > deadline;
      }
    }
  });
  return best;
}

}  // namespace tutti::kernels
