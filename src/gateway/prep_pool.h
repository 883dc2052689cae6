// PrepPool: limits how many requests are prepared (template, tokenizer) at once, and owns threads
// for requests that the calling thread should not prepare itself (over 4 KiB, or blocking).
//
// At most `in_flight` requests are prepared at once, by callers and pool threads together. Others
// wait in order of arrival and occupy no thread: a caller that finds no place posts its job and
// continues. Two threads suffice; more would only take cores from the model. The engine's queue
// bounds the number of waiting jobs, because every job holds a queue permit. Any thread may call;
// the destructor runs all posted jobs.
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
  struct Options {
    const char* name = "tutti-prep";  // of its threads
    int nice = 0;                     // of its threads: more leave the cores to the engine's
  };
  // As many of `threads` as may prepare at once, both at least 1. Throws std::system_error where
  // the system has no more threads.
  PrepPool(int in_flight, int threads) : PrepPool(in_flight, threads, Options()) {}
  PrepPool(int in_flight, int threads, const Options& options);
  ~PrepPool();
  PrepPool(const PrepPool&) = delete;
  PrepPool& operator=(const PrepPool&) = delete;

  // Permission for the calling thread to prepare one request itself; ends with the object. False if
  // no place is free; the caller must then Post().
  class Place {
   public:
    explicit Place(PrepPool& pool) : pool_(pool.TryEnter() ? &pool : nullptr) {}
    ~Place() {
      if (pool_ != nullptr) pool_->Leave();
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    explicit operator bool() const { return pool_ != nullptr; }

   private:
    PrepPool* const pool_;
  };

  void Post(std::function<void()> job);
  int threads() const { return static_cast<int>(threads_.size()); }
  // Requests that are being prepared or wait for it.
  int load() const;

 private:
  PrepPool(int in_flight, const Options& options) : options_(options), in_flight_(in_flight) {}
  bool TryEnter();
  void Leave();
  void LeaveLocked() REQUIRES(mutex_);
  void WakeThread() REQUIRES(mutex_);  // wakes a thread if a job and a place are available
  void Main();

  const Options options_;
  const int in_flight_;
  mutable Mutex mutex_;
  CondVar changed_;
  CoreWanted wanted_;  // until a job is begun: it may be long
  std::deque<std::function<void()>> jobs_ GUARDED_BY(mutex_);
  int running_ GUARDED_BY(mutex_) = 0;  // of callers and of the pool; at most in_flight_
  int busy_ GUARDED_BY(mutex_) = 0;     // threads of the pool among them
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace tutti::gateway
