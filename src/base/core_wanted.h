// CoreWanted: counts the threads that have short work to do, so that compute threads can yield
// their core to them.
//
// While compute threads occupy every core, the kernel may keep a thread that wakes up waiting until
// the next tick (4 ms at 250 Hz), as soon as that thread used a little more than its share lately,
// and may preempt it in the middle of its work; a message passes through several such threads. So
// compute threads call GiveWay() between phases: some ten microseconds apart in a decode step and
// up to a few hundred in a prefill. The call is a load, and a system call only if a thread of this
// process waits. Other processes gain no more than the turn that is yielded.
//
// The count is the only state that all threads of the process share. Any thread.
#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>

#include "base/mutex.h"

namespace tutti {

// One object for each thread, or for a loop that several threads run. It counts once, however often
// Want() is called before Got().
class CoreWanted {
 public:
  CoreWanted() = default;
  ~CoreWanted() { Got(); }
  CoreWanted(const CoreWanted&) = delete;
  CoreWanted& operator=(const CoreWanted&) = delete;

  // Called by the notifying thread, before the notification.
  void Want() noexcept {
    if (!wanted_.exchange(true, std::memory_order_relaxed))
      count_.fetch_add(1, std::memory_order_relaxed);
  }
  // Called by the thread when its work is done, or before it waits again.
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

// Minimum time between two yields of a compute thread: under thousands of cheap requests a second
// some thread always waits, and a yield at each phase would leave hardly any time to compute.
inline constexpr std::chrono::microseconds kOwnTurn{250};

inline void GiveWay() noexcept {
  if (!CoreWanted::Anybody()) return;
  thread_local std::chrono::steady_clock::time_point since;
  if (std::chrono::steady_clock::now() - since < kOwnTurn) return;
  (void)sched_yield();
  since = std::chrono::steady_clock::now();
}

// Condition variable of a thread with short work: the thread wants a core from the notification
// until it waits again. One thread waits; notifiers hold the mutex that it waits with.
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
