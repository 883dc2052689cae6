// Mutex and roles that clang's thread-safety analysis understands (-Wthread-safety, preset
// `analysis`), Synchronized, a value with its mutex, and WakeCount, with which a thread waits for
// changes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#if defined(__clang__)
#define TUTTI_TS(x) __attribute__((x))
#else
#define TUTTI_TS(x)
#endif
#define CAPABILITY(x) TUTTI_TS(capability(x))
#define SCOPED_CAPABILITY TUTTI_TS(scoped_lockable)
#define GUARDED_BY(x) TUTTI_TS(guarded_by(x))
#define REQUIRES(...) TUTTI_TS(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) TUTTI_TS(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) TUTTI_TS(acquire_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) TUTTI_TS(try_acquire_capability(__VA_ARGS__))
#define RELEASE(...) TUTTI_TS(release_capability(__VA_ARGS__))
#define NO_THREAD_SAFETY_ANALYSIS TUTTI_TS(no_thread_safety_analysis)

namespace tutti {

class CAPABILITY("mutex") Mutex {
 public:
  void Lock() ACQUIRE() { mutex_.lock(); }
  bool TryLock() TRY_ACQUIRE(true) { return mutex_.try_lock(); }  // false: another thread has it
  void Unlock() RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() RELEASE() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// A value with a mutex of its own. Any thread.
template <typename T>
class Synchronized {
 public:
  // `change` takes a T&, under the mutex.
  template <typename Change>
  void Update(const Change& change) {
    const MutexLock lock(mutex_);
    change(value_);
  }
  T Copy() const {
    const MutexLock lock(mutex_);
    return value_;
  }

 private:
  mutable Mutex mutex_;
  T value_ GUARDED_BY(mutex_) = {};
};

// Waits atomically release the mutex and hold it again on return. Always wait in a loop over the
// condition.
class CondVar {
 public:
  void Wait(Mutex& mutex) REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    cv_.wait(lock);
    lock.release();
  }
  // False when the time passed first.
  template <typename Rep, typename Period>
  bool WaitFor(Mutex& mutex, std::chrono::duration<Rep, Period> timeout) REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool notified = cv_.wait_for(lock, timeout) == std::cv_status::no_timeout;
    lock.release();
    return notified;
  }
  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

// Lets a thread wait for a change that other threads make to shared state.
//
// A thread that changes the state raises the count afterwards. A waiter reads the count, checks the
// state, and waits until the count differs, so that no change between its check and its wait is
// lost. Any thread.
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
