// Pump: the door's one thread that answers calls, beside the library's. It asks those that wait for
// a model, or for a time, whether there is something to send; and it runs what is handed to it.
//
// Models wake it at most once a step, however many calls they serve. Any thread may call; Stop()
// belongs to the owner, after which nothing runs.
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
  // Looks whether there is something to do. Returns when it wants to be asked next, if nobody wakes
  // it earlier.
  virtual TimePoint PumpOnce() = 0;
  // Asked at each sweep while it is watched.
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

  std::shared_ptr<api::StreamWaker> waker() const;
  void Wake();
  // From now on `call` is asked at each wake, until it is removed.
  void Add(std::shared_ptr<Pumped> call);
  void Remove(const Pumped* call);
  // From now on it is swept, until it is unwatched. Costs no wake.
  void Watch(std::shared_ptr<Pumped> call);
  void Unwatch(const Pumped* call);
  void SweepSoon();  // without waiting for its time
  void Post(std::function<void()> work);

 private:
  using Calls = std::unordered_map<const Pumped*, std::shared_ptr<Pumped>>;
  class Waker;
  void Main();
  static void Erase(const Pumped* call, Calls& calls, std::shared_ptr<Pumped>* removed);
  // Waits for something to do; false when the pump is to stop.
  bool Await(TimePoint due);

  const Clock& clock_;
  const Duration sweep_every_;
  const std::shared_ptr<Waker> waker_;
  Mutex mutex_;
  UrgentCondVar changed_;
  bool woken_ GUARDED_BY(mutex_) = false, sweep_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool sweeping_ GUARDED_BY(mutex_) = false;  // the next sweep has a time
  TimePoint next_sweep_ GUARDED_BY(mutex_);
  Calls calls_ GUARDED_BY(mutex_), watched_ GUARDED_BY(mutex_);
  std::vector<std::function<void()>> work_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace tutti::rpc
