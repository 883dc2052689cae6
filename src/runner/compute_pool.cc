#include "runner/compute_pool.h"

#include <utility>

#include "base/threads.h"
#include "model/team.h"

namespace tutti::runner {

ComputePool::ComputePool(const ComputePoolOptions& options, NoThreadsYet)
    : workers_(options.workers),
      board_(options.workers),
      seats_(new Seat[static_cast<size_t>(options.workers)]) {}

// Delegates to a constructor that starts no threads: if starting a thread then throws, the
// destructor runs and ends the threads started so far.
ComputePool::ComputePool(const ComputePoolOptions& options) : ComputePool(options, NoThreadsYet{}) {
  threads_.reserve(static_cast<size_t>(workers_ - 1));
  for (int worker = 1; worker < workers_; ++worker) {
    threads_.emplace_back([this, worker] { WorkerMain(worker); });
  }
}

ComputePool::~ComputePool() {
  stop_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  ring_.fetch_add(1, std::memory_order_release);
  ring_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ComputePool::RunErased(Function function, void* context) {
  if (!std::exchange(caller_prepared_, true)) PreferLongTurns();
  function_ = function;
  context_ = context;
  const uint64_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
  if (workers_ > 1) {
    for (int w = 1; w < workers_; ++w) {
      seats_[static_cast<size_t>(w)].value.store(4 * epoch + kOpen, std::memory_order_release);
    }
    epoch_.store(epoch, std::memory_order_release);
    ring_.store(static_cast<uint32_t>(epoch), std::memory_order_release);
    ring_.notify_all();  // a system call only if a worker is parked
  }
  model::Team team(board_, 0, start_);
  function(context, team);
  if (workers_ > 1) CloseSeats(epoch);
  start_ = team.position();
}

// Keeps late workers out and waits for those inside to leave.
void ComputePool::CloseSeats(uint64_t epoch) {
  for (int w = 1; w < workers_; ++w) {
    std::atomic<uint64_t>& seat = seats_[static_cast<size_t>(w)].value;
    uint64_t expected = 4 * epoch + kOpen;
    if (seat.compare_exchange_strong(expected, 4 * epoch + kClosed, std::memory_order_acq_rel))
      continue;
    for (model::SpinWait wait; seat.load(std::memory_order_acquire) != 4 * epoch + kClosed;)
      wait.Pause();
  }
}

uint64_t ComputePool::AwaitEpoch(uint64_t seen) const {
  constexpr int kPausesPerLook = 64;
  const auto park_at = std::chrono::steady_clock::now() + kSpinBeforePark;
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      const uint64_t epoch = epoch_.load(std::memory_order_acquire);
      if (epoch != seen) return epoch;
      SpinPause();
    }
  } while (std::chrono::steady_clock::now() < park_at);
  // If exactly 2^32 jobs pass while the worker parks, it sees no change and stays parked; the next
  // job wakes it.
  ring_.wait(static_cast<uint32_t>(seen), std::memory_order_acquire);
  return epoch_.load(std::memory_order_acquire);
}

void ComputePool::WorkerMain(int worker) {
  NameThread("tutti-compute");
  PreferLongTurns();
  std::atomic<uint64_t>& seat = seats_[static_cast<size_t>(worker)].value;
  for (uint64_t seen = 0;;) {
    seen = AwaitEpoch(seen);
    if (stop_.load(std::memory_order_relaxed)) return;
    uint64_t expected = 4 * seen + kOpen;
    if (!seat.compare_exchange_strong(expected, 4 * seen + kInside, std::memory_order_acq_rel))
      continue;
    model::Team team(board_, worker, start_);
    function_(context_, team);
    seat.store(4 * seen + kClosed, std::memory_order_release);
  }
}

}  // namespace tutti::runner
