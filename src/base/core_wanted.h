// CoreWanted: threads that have short work to do, counted, so that threads that compute can let
// them go first.
//
// Where every core computes, the kernel lets a thread that wakes wait until its next tick (4 ms at
// 250 Hz) as soon as it has used a little more than its share of late, and takes its core back in
// the middle; a message passes several such threads. So who computes calls GiveWay() between
// phases, some ten microseconds in a decode step and up to a few hundred in a prefill: a load, and
// a system call only if somebody of this process waits. Other processes get no more by it than the
// turn that is given away.
//
// The count is the one thing here that all threads of the process share. Any thread.
#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>

#include "base/mutex.h"

namespace tutti {

// Of one thread, or one loop of them; it counts once however often it is wanted.
class CoreWanted {
 public:
  CoreWanted() = default;
  ~CoreWanted() { Got(); }
  CoreWanted(const CoreWanted&) = delete;
  CoreWanted& operator=(const CoreWanted&) = delete;

  // Before the thread is told.
  void Want() noexcept {
    if (!wanted_.exchange(true, std::memory_order_relaxed))
      count_.fetch_add(1, std::memory_order_relaxed);
  }
  // When it has done what it was told, or waits for more.
  void Got() noexcept {
    if (wanted_.load(std::memory_order_relaxed) &&
        wanted_.exchange(false, std::memory_order_relaxed))
      count_.fetch_sub(1, std::memory_order_relaxed);
  }
  static bool Anybody() noexcept { return count_.load(std::memory_order_relaxed) > 0; }

 private:
  std::atomic<bool> wanted_{false};
  alignas(64) static inline std::atomic<int> count_{0};
};

// How long a thread that computes keeps its core at least, between two turns that it gives away:
// with somebody wanted all the time (thousands of cheap requests a second) a yield at each phase
// would leave it next to nothing.
inline constexpr std::chrono::microseconds kOwnTurn{250};

inline void GiveWay() noexcept {
  if (!CoreWanted::Anybody()) return;
  thread_local std::chrono::steady_clock::time_point since;
  if (std::chrono::steady_clock::now() - since < kOwnTurn) return;
  (void)sched_yield();
  since = std::chrono::steady_clock::now();
}

// The CondVar of a thread whose work is short: the thread wants a core from the notification until
// it waits again. One thread waits, and whoever notifies holds its mutex.
class UrgentCondVar {
 public:
  void Wait(Mutex& mutex) REQUIRES(mutex) {
    wanted_.Got();
    changed_.Wait(mutex);
  }
  // False when the time passed first.
  template <typename Rep, typename Period>
  bool WaitFor(Mutex& mutex, std::chrono::duration<Rep, Period> timeout) REQUIRES(mutex) {
    wanted_.Got();
    return changed_.WaitFor(mutex, timeout);
  }
  void Notify() {
    wanted_.Want();
    changed_.NotifyOne();
  }
  // When the thread ends.
  void Leave() { wanted_.Got(); }

 private:
  CondVar changed_;
  CoreWanted wanted_;
};

}  // namespace tutti
