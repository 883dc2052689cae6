// Calls that wait: for a handler (Handlers), or for a model or a time (Pump).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/token_stream.h"
#include "base/clock.h"
#include "base/core_wanted.h"
#include "base/mutex.h"

namespace tutti::rpc {

// Limits the number of calls that are being prepared concurrently, and queues the others.
//
// A waiting call holds its message and nothing else: no thread, and no place in the model's queue.
// The queue is first in, first out, and bounded in calls and bytes; a cancelled call leaves it. Any
// thread.
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

class Pumped {
 public:
  virtual ~Pumped() = default;
  // Does what there is to do. Returns the time of the next call, unless a wake-up comes earlier.
  virtual TimePoint PumpOnce() = 0;
  // Called at each sweep while the call is watched.
  virtual void Sweep() {}
};

// The server's thread that sends answers, in addition to the threads of the gRPC library. It calls
// the calls that wait for a model or a time, so that they can send, and runs posted work.
//
// Models wake the pump at most once per step, however many calls they serve. Any thread may call;
// Stop() belongs to the owner. After Stop() nothing runs.
class Pump {
 public:
  Pump(const Clock& clock, Duration sweep_every);
  ~Pump();  // Stop()
  Pump(const Pump&) = delete;
  Pump& operator=(const Pump&) = delete;

  void Start();
  void Stop();

  std::shared_ptr<Waker> waker() const;
  void Wake();
  // Calls `call->PumpOnce()` at each wake-up, until Remove().
  void Add(std::shared_ptr<Pumped> call);
  void Remove(const Pumped* call);
  // Calls `call->Sweep()` at each sweep, until Unwatch(). Wakes nothing.
  void Watch(std::shared_ptr<Pumped> call);
  void Unwatch(const Pumped* call);
  void SweepSoon();  // without waiting for the next interval
  void Post(std::function<void()> work);

 private:
  using Calls = std::unordered_map<const Pumped*, std::shared_ptr<Pumped>>;
  class QueueWaker;
  void Main();
  static void Erase(const Pumped* call, Calls& calls, std::shared_ptr<Pumped>* removed);
  // Waits for something to do; false when the pump stops.
  bool Await(TimePoint due);

  const Clock& clock_;
  const Duration sweep_every_;
  const std::shared_ptr<QueueWaker> waker_;
  Mutex mutex_;
  UrgentCondVar changed_;
  bool woken_ GUARDED_BY(mutex_) = false, sweep_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool sweeping_ GUARDED_BY(mutex_) = false;  // next_sweep_ is set
  TimePoint next_sweep_ GUARDED_BY(mutex_);
  Calls calls_ GUARDED_BY(mutex_), watched_ GUARDED_BY(mutex_);
  std::vector<std::function<void()>> work_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace tutti::rpc
