// WakeCount: how a thread waits for something that other threads may have changed.
//
// Whoever changes something raises the count; a waiter takes the count, looks at what it waits for,
// and waits for another count, so that no change between its look and its wait is lost. Any thread.
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
