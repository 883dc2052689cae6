// Handlers: limits the number of calls that are being prepared concurrently, and queues the others.
//
// A waiting call holds its message and nothing else: no thread, and no place in the model's queue.
// The queue is first in, first out, and bounded in calls and bytes; a cancelled call leaves it. Any
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "base/mutex.h"

namespace tutti::rpc {

class Handlers {
 public:
  enum class Entered {
    kNow,   // a handler is the caller's until it calls Leave()
    kWait,  // `run` is passed to `hand_on` with a handler when it is its turn
    kFull,  // refused; `run` is not kept
  };

  // `hand_on` passes the next call to another thread; it must not run the call.
  Handlers(int most, int max_waiting, int64_t max_waiting_bytes,
           std::function<void(std::function<void()>)> hand_on)
      : max_(most),
        max_waiting_(max_waiting),
        max_bytes_(max_waiting_bytes),
        hand_on_(std::move(hand_on)) {}

  // `ticket` is set for kWait.
  Entered Enter(int64_t message_bytes, std::function<void()> run, uint64_t* ticket);
  void Leave();
  // Leaves the queue; does nothing if the call was already taken from it.
  void Forget(uint64_t ticket);

  int running() const;
  int waiting() const;

 private:
  struct Waiting {
    int64_t bytes;
    std::function<void()> run;
  };
  const int max_, max_waiting_;
  const int64_t max_bytes_;
  const std::function<void(std::function<void()>)> hand_on_;
  mutable Mutex mutex_;
  int running_ GUARDED_BY(mutex_) = 0;
  int64_t bytes_ GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Waiting> line_ GUARDED_BY(mutex_);  // by ticket: in order of arrival
  uint64_t tickets_ GUARDED_BY(mutex_) = 0;
};

}  // namespace tutti::rpc
