// PasswordPool: a small thread pool that hashes passwords, so that a thousand simultaneous logins
// use the memory and cores of only a few hashes at a time.
//
// The threads have low priority: while a model is busy, logins become slower and answers do not.
// Any thread may call Run(); it never blocks.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"

namespace tutti::auth {

class PasswordPool {
 public:
  struct Options {
    int threads = 0;          // 1 to 4; 0: half of the cores, within these bounds
    size_t max_waiting = 64;  // jobs that were not begun; then overloaded
    // A job that has waited longer gets overloaded: its client has probably given up, and during a
    // flood the pool would otherwise compute only hashes that no client waits for.
    Duration max_wait = std::chrono::seconds(5);
    int nice = 10;  // nice value of the threads, 0 to 19
  };
  static constexpr int kMaxThreads = 4;

  explicit PasswordPool(const Options& options);
  ~PasswordPool();  // waits for running jobs; waiting ones get `draining`
  PasswordPool(const PasswordPool&) = delete;
  PasswordPool& operator=(const PasswordPool&) = delete;

  // Calls `job` once: with OK on a thread of the pool, or with an error (overloaded, draining) on
  // any thread; the job must then do nothing.
  using Job = std::function<void(const Status& start)>;
  void Run(Job job);

  size_t threads() const { return threads_.size(); }
  size_t waiting() const {  // jobs that were not begun
    const MutexLock guard(mutex_);
    return waiting_.size();
  }

 private:
  struct Waiting {
    Job job;
    std::chrono::steady_clock::time_point since;
  };
  void Main();

  const Options options_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Waiting> waiting_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace tutti::auth
