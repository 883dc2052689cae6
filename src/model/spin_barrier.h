// SpinBarrier and Team: how the workers of one forward pass meet.
//
// A pass is SPMD: every worker runs the same function over its own share of each phase, and a barrier stands
// between a phase and the ones that read what it wrote. The barrier spins, because a phase takes microseconds
// and a kernel wake-up takes tens of them; a worker that has waited for long gives its time slice away, so that
// more workers than free cores still make progress.
// Source: the generation form of a centralised sense-reversing barrier (Mellor-Crummey and Scott, TOCS 1991).
#pragma once

#include <atomic>
#include <cstdint>

#include "base/check.h"

namespace tutti::model {

// Owner: the compute pool. Thread: exactly `parties` threads call Wait(), any number of times.
class SpinBarrier {
 public:
  explicit SpinBarrier(int parties) : parties_(parties) { CHECK_GE(parties, 1); }

  // Returns when all parties have called it; what each wrote before is visible to all after.
  void Wait();

 private:
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
  alignas(64) const int parties_;
};

// One worker's view of the team that runs a pass. Cheap value.
class Team {
 public:
  Team(SpinBarrier& barrier, int worker, int workers)
      : barrier_(&barrier), worker_(worker), workers_(workers) {}

  int worker() const { return worker_; }    // 0 .. workers()-1
  int workers() const { return workers_; }
  void Sync() const {
    if (workers_ > 1) barrier_->Wait();
  }

  // This worker's contiguous share [begin, end) of n items, as even as whole items allow.
  struct Range {
    int begin;
    int end;
  };
  Range Share(int n) const {
    const int64_t count = n;
    return {static_cast<int>(count * worker_ / workers_),
            static_cast<int>(count * (worker_ + 1) / workers_)};
  }

 private:
  SpinBarrier* barrier_;
  int worker_;
  int workers_;
};

// A hint to the core that this is a spin loop.
inline void SpinPause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace tutti::model
