// Pump: the server's thread that sends answers, in addition to the threads of the gRPC library. It
// calls the calls that wait for a model or a time, so that they can send, and runs posted work.
//
// Models wake the pump at most once per step, however many calls they serve. Any thread may call;
// Stop() belongs to the owner. After Stop() nothing runs.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "api/token_stream.h"
#include "base/clock.h"
#include "base/core_wanted.h"
#include "base/mutex.h"

namespace tutti::rpc {

class Pumped {
 public:
  virtual ~Pumped() = default;
  // Does what there is to do. Returns the time of the next call, unless a wake-up comes earlier.
  virtual TimePoint PumpOnce() = 0;
  // Called at each sweep while the call is watched.
  virtual void Sweep() {}
};

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
