// WakeCount: lets a thread wait for a change that other threads make to shared state.
//
// A thread that changes the state raises the count afterwards. A waiter reads the count, checks the
// state, and waits until the count differs, so that no change between its check and its wait is
// lost. Any thread.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/mutex.h"

namespace tutti {

class WakeCount {
 public:
  void Raise() noexcept {
    const MutexLock lock(mutex_);
    ++count_;
    changed_.NotifyAll();
  }
  uint64_t count() {
    const MutexLock lock(mutex_);
    return count_;
  }
  // Waits until the count differs from `seen`; false when `deadline` passed first.
  bool Wait(uint64_t seen, std::chrono::steady_clock::time_point deadline =
                               std::chrono::steady_clock::time_point::max()) {
    const MutexLock lock(mutex_);
    while (count_ == seen) {
      if (deadline == std::chrono::steady_clock::time_point::max()) {
        changed_.Wait(mutex_);
        continue;
      }
      const auto left = deadline - std::chrono::steady_clock::now();
      if (left <= left.zero()) return false;
      changed_.WaitFor(mutex_, left);
    }
    return true;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  uint64_t count_ GUARDED_BY(mutex_) = 0;
};

}  // namespace tutti
