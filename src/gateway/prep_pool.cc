#include "gateway/prep_pool.h"

#include <algorithm>
#include <utility>

#include "base/memory_reserve.h"

namespace tutti::gateway {
namespace {
constexpr int kMaxThreads = 2;
}

// Whole before its first thread: should a later one fail, the destructor ends the others.
PrepPool::PrepPool(int in_flight) : PrepPool() {
  for (int i = 0; i < std::clamp(in_flight, 1, kMaxThreads); ++i)
    threads_.emplace_back([this] { Main(); });
}

PrepPool::~PrepPool() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void PrepPool::Post(std::function<void()> job) {
  const MutexLock lock(mutex_);
  jobs_.push_back(std::move(job));
  wanted_.Want();
  changed_.NotifyOne();
}

void PrepPool::Main() {
  KeepMemoryReserve();  // now: when its first job comes there may be none left
  while (true) {
    std::function<void()> job;
    {
      const MutexLock lock(mutex_);
      while (jobs_.empty() && !stopping_) changed_.Wait(mutex_);
      wanted_.Got();
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace tutti::gateway
