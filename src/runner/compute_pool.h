// ComputePool: the threads that compute. One job at a time runs on all of them; the caller is worker 0.
//
// Between jobs a worker spins for at most kSpinBeforePark, so that back-to-back steps start within a microsecond,
// and then parks on a futex: an idle pool uses no CPU. Inside a job the workers meet at the team's barrier.
// Owner: whoever runs the model (one pool per device). Thread: Run() is called by one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/clock.h"
#include "model/spin_barrier.h"

namespace tutti::runner {

struct ComputePoolOptions {
  int workers = 1;   // >= 1, the calling thread included
  // Binds each worker to a CPU of its own, taken in order from those the process may use. The calling thread is
  // bound by its first Run(). Ignored where there are fewer CPUs than workers.
  bool pin = false;
};

class ComputePool {
 public:
  static constexpr Duration kSpinBeforePark = std::chrono::microseconds(200);

  explicit ComputePool(const ComputePoolOptions& options);
  ~ComputePool();
  ComputePool(const ComputePool&) = delete;
  ComputePool& operator=(const ComputePool&) = delete;

  int workers() const { return workers_; }

  // Calls job(team) once on every worker and returns when all calls have returned. `job` is shared by the workers
  // and must not throw. Allocates nothing.
  template <typename Job>
  void Run(Job&& job) {
    using Plain = std::remove_reference_t<Job>;
    RunErased([](void* context, const model::Team& team) { (*static_cast<Plain*>(context))(team); },
              const_cast<std::remove_const_t<Plain>*>(&job));
  }

 private:
  using Function = void (*)(void* context, const model::Team& team);
  void RunErased(Function function, void* context);
  void WorkerMain(int worker);
  // The epoch after `seen`, waiting for it.
  uint32_t AwaitEpoch(uint32_t seen) const;

  const int workers_;
  const std::vector<int> cpus_;  // to bind worker i to; empty = not bound
  model::SpinBarrier barrier_;
  bool caller_bound_ = false;

  // Written by the caller before it publishes a new epoch, read by workers after they saw it.
  Function function_ = nullptr;  // null: leave
  void* context_ = nullptr;
  alignas(64) std::atomic<uint32_t> epoch_{0};

  std::vector<std::thread> threads_;  // workers 1..n-1
};

}  // namespace tutti::runner
