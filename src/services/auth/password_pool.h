// PasswordPool: the few threads that hash passwords, so that a thousand logins at once take the
// memory and the cores of a few, one after the other, and no answer in progress waits for them.
//
// Its threads yield to all others: a login beside a busy model takes longer, the model does not.
// Any thread may call Run; it never waits.
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
    int threads = 0;           // 1 to 4; 0: half of the cores, within these bounds
    size_t most_waiting = 64;  // jobs that were not begun; then overloaded
    // Who waited longer has gone, or will not wait for the hash: overloaded. Else a flood has every
    // hash computed for somebody who has given up.
    Duration most_wait = std::chrono::seconds(5);
    int nice = 10;  // how far the threads yield to all others, 0 to 19
  };
  static constexpr int kMostThreads = 4;

  explicit PasswordPool(const Options& options);
  ~PasswordPool();  // those that run are awaited; those that wait are told `draining`
  PasswordPool(const PasswordPool&) = delete;
  PasswordPool& operator=(const PasswordPool&) = delete;

  // Calls `job` once: with OK on a thread of the pool, or with why it must do nothing (overloaded,
  // draining), then on whatever thread.
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
