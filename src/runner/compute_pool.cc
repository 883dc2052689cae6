#include "runner/compute_pool.h"

#include <pthread.h>
#include <sched.h>

namespace tutti::runner {
namespace {

std::vector<int> AllowedCpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

std::vector<int> CpusFor(const ComputePoolOptions& options) {
  if (!options.pin) return {};
  std::vector<int> cpus = AllowedCpus();
  if (cpus.size() < static_cast<size_t>(options.workers)) return {};
  return cpus;
}

void BindSelf(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  // Best effort: a refusal (a CPU taken offline, a stricter sandbox) costs speed only.
  (void)pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

}  // namespace

ComputePool::ComputePool(const ComputePoolOptions& options)
    : workers_(options.workers), cpus_(CpusFor(options)), barrier_(options.workers) {
  CHECK_GE(workers_, 1);
  threads_.reserve(static_cast<size_t>(workers_ - 1));
  for (int worker = 1; worker < workers_; ++worker) {
    threads_.emplace_back([this, worker] { WorkerMain(worker); });
  }
}

ComputePool::~ComputePool() {
  function_ = nullptr;
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ComputePool::RunErased(Function function, void* context) {
  if (!caller_bound_ && !cpus_.empty()) BindSelf(cpus_[0]);
  caller_bound_ = true;
  function_ = function;
  context_ = context;
  if (workers_ > 1) {
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();  // a system call only if a worker is parked
  }
  const model::Team team(barrier_, 0, workers_);
  function(context, team);
  team.Sync();  // after it no worker touches function_ or context_
}

uint32_t ComputePool::AwaitEpoch(uint32_t seen) const {
  constexpr int kPausesPerLook = 64;
  const auto park_at = std::chrono::steady_clock::now() + kSpinBeforePark;
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      const uint32_t epoch = epoch_.load(std::memory_order_acquire);
      if (epoch != seen) return epoch;
      model::SpinPause();
    }
  } while (std::chrono::steady_clock::now() < park_at);
  epoch_.wait(seen, std::memory_order_acquire);
  return epoch_.load(std::memory_order_acquire);
}

void ComputePool::WorkerMain(int worker) {
  if (!cpus_.empty()) BindSelf(cpus_[static_cast<size_t>(worker)]);
  pthread_setname_np(pthread_self(), "tutti-compute");
  const model::Team team(barrier_, worker, workers_);
  for (uint32_t seen = 0;;) {
    seen = AwaitEpoch(seen);
    if (function_ == nullptr) return;
    function_(context_, team);
    team.Sync();
  }
}

}  // namespace tutti::runner
