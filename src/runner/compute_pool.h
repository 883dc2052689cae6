// ComputePool: the threads that compute. One job at a time runs on all of them; the caller is
// worker 0.
//
// Between jobs a worker spins for at most kSpinBeforePark, so that back-to-back steps start within
// a microsecond, and then parks on a futex: an idle pool uses no CPU. Inside a job the workers
// share phases (model/team.h). A worker that is late for a job misses it: the others do its work,
// and the caller waits only for those that are inside. Shared by the runners of one device. Thread:
// Run() is called by one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/clock.h"
#include "model/team.h"

namespace tutti::runner {

struct ComputePoolOptions {
  int workers = 1;  // >= 1, the calling thread included
};

class ComputePool {
 public:
  static constexpr Duration kSpinBeforePark = std::chrono::microseconds(200);

  // Throws std::system_error where the system has no more threads; those started are ended first.
  explicit ComputePool(const ComputePoolOptions& options);
  ~ComputePool();
  ComputePool(const ComputePool&) = delete;
  ComputePool& operator=(const ComputePool&) = delete;

  int workers() const { return workers_; }

  // Calls job(team) on the calling thread and on every worker that comes in time, and returns when
  // all calls have returned. The job's phases are complete then. `job` is shared by the workers and
  // must not throw. Allocates nothing.
  template <typename Job>
  void Run(Job&& job) {
    using Plain = std::remove_reference_t<Job>;
    RunErased([](void* context, model::Team& team) { (*static_cast<Plain*>(context))(team); },
              const_cast<std::remove_const_t<Plain>*>(&job));
  }

 private:
  using Function = void (*)(void* context, model::Team& team);
  struct NoThreadsYet {};
  ComputePool(const ComputePoolOptions& options, NoThreadsYet);
  // A worker's way through a job: open -> inside -> closed, or open -> closed if it did not come.
  // The value is 4 * epoch + state, so that a worker cannot enter another job than the one it saw.
  struct alignas(64) Seat {
    std::atomic<uint64_t> value{kClosed};
  };
  static constexpr uint64_t kOpen = 0, kInside = 1, kClosed = 2;

  void RunErased(Function function, void* context);
  void CloseSeats(uint64_t epoch);
  void WorkerMain(int worker);
  // The first epoch after `seen`, waiting for it.
  uint64_t AwaitEpoch(uint64_t seen) const;

  const int workers_;
  bool caller_prepared_ = false;

  // Written by the caller while no worker is inside a job; read inside.
  Function function_ = nullptr;
  void* context_ = nullptr;
  model::Team::Position start_;

  model::PhaseBoard board_;
  const std::unique_ptr<Seat[]> seats_;  // [workers]; 0 is not used
  alignas(64) std::atomic<uint64_t> epoch_{0};
  std::atomic<uint32_t> ring_{0};  // the epoch's low bits: what a futex can wait for
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;  // workers 1..n-1
};

}  // namespace tutti::runner
