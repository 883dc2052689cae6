#include "gateway/prep_pool.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "base/memory_reserve.h"
#include "base/threads.h"

namespace tutti::gateway {

// Whole before its first thread: should a later one fail, the destructor ends the others.
PrepPool::PrepPool(int in_flight, int threads, const Options& options)
    : PrepPool(std::max(in_flight, 1), options) {
  for (int i = 0; i < std::clamp(threads, 1, in_flight_); ++i)
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
  if (running_ < in_flight_) WakeThread();
}

int PrepPool::load() const {
  const MutexLock lock(mutex_);
  return running_ + static_cast<int>(jobs_.size());
}

// A place needed by a waiting job is not given to a later caller; a place that no pool thread could
// use is.
bool PrepPool::TryEnter() {
  const MutexLock lock(mutex_);
  const int free = threads() - busy_;
  if (running_ + std::min(static_cast<int>(jobs_.size()), free) >= in_flight_) return false;
  ++running_;
  return true;
}

void PrepPool::Leave() {
  const MutexLock lock(mutex_);
  LeaveLocked();
}

void PrepPool::LeaveLocked() {
  --running_;
  if (!jobs_.empty()) WakeThread();
}

void PrepPool::WakeThread() {
  wanted_.Want();
  changed_.NotifyOne();
}

void PrepPool::Main() {
  NameThread(options_.name);
  // Linux takes it for the calling thread alone.
  if (options_.nice != 0) (void)setpriority(PRIO_PROCESS, 0, options_.nice);
  KeepMemoryReserve();  // now: when its first job comes there may be none left
  while (true) {
    std::function<void()> job;
    {
      const MutexLock lock(mutex_);
      while (stopping_ ? !jobs_.empty() && running_ >= in_flight_
                       : jobs_.empty() || running_ >= in_flight_)
        changed_.Wait(mutex_);
      wanted_.Got();
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
      ++running_;
      ++busy_;
      if (stopping_ && jobs_.empty()) changed_.NotifyAll();  // the others end
    }
    job();
    job = nullptr;  // what it holds goes before the place
    const MutexLock lock(mutex_);
    --busy_;
    LeaveLocked();
  }
}

}  // namespace tutti::gateway
