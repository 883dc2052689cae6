// PasswordPool: the few threads that hash passwords, so that a thousand logins at once take the
// memory and the cores of a few, one after the other, and no answer in progress waits for them.
//
// Its threads yield to all others: a login beside a busy model takes longer, the model does not.
// Any thread may call Run; it never waits.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"

namespace tutti::auth {

class PasswordPool {
 public:
  struct Options {
    int threads = 0;           // 1 to 4; 0: half of the cores, within these bounds
    size_t most_waiting = 64;  // jobs that were not begun; then overloaded
    int nice = 10;             // how far the threads yield to all others, 0 to 19
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

 private:
  void Main();

  const Options options_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Job> waiting_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace tutti::auth
