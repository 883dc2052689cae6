// PrepPool: the threads that render and tokenise prompts too large for an io thread (over 4 KiB).
//
// At most `in_flight` jobs run at once, and never more than two, whatever is asked for: more
// threads would only take cores from the model. Later jobs wait in arrival order, holding neither a
// lane nor a thread. The number of threads never decides correctness, only speed. What waits is
// bounded by the engine's queue: every job holds a ticket. Any thread may Post; destruction runs
// what was posted.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/core_wanted.h"
#include "base/mutex.h"

namespace tutti::gateway {

class PrepPool {
 public:
  // Throws std::system_error where the system has no more threads.
  explicit PrepPool(int in_flight);
  ~PrepPool();
  PrepPool(const PrepPool&) = delete;
  PrepPool& operator=(const PrepPool&) = delete;

  void Post(std::function<void()> job);
  int threads() const { return static_cast<int>(threads_.size()); }

 private:
  PrepPool() = default;
  void Main();

  Mutex mutex_;
  CondVar changed_;
  CoreWanted wanted_;  // until a job is begun: it may be long
  std::deque<std::function<void()>> jobs_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace tutti::gateway
