// DeviceLoop: the engine thread of one device. It runs the steps of the device's slots (decoder and
// encoder models) one at a time, so that forward passes of one device never overlap and never
// oversubscribe its cores.
//
// An idle loop waits on one eventfd, with the next deadline as timeout, and uses no CPU.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "engine/mailbox.h"
#include "engine/policy/share_device.h"

namespace tutti::engine {

struct InstanceReadiness {
  bool ready = false;                      // Step() has something to do now
  TimePoint next_work = TimePoint::max();  // otherwise: when to look again without a signal
};

// Demand of the other slots while one slot has its turn.
struct Contention {
  bool ready = false;  // another slot has a step to run
  // Usual step time of the fastest slot that is ready, ignoring occasional long steps; zero while
  // unknown.
  Duration step{0};
  // Another slot had a step to run within the last kCompanyTime, so that new work for it is likely
  // to arrive during the next step.
  bool lately = false;
};

inline constexpr Duration kCompanyTime = std::chrono::seconds(1);

// A model on a device. Engine thread only. Destroyed after it was removed from its loop.
class Slot {
 public:
  virtual ~Slot() = default;
  // Takes in submissions of other threads, applies cancels, deadlines and pauses. Must be cheap: it
  // is called before every step of any slot.
  virtual InstanceReadiness Prepare(TimePoint now) = 0;
  // Runs one forward pass and delivers its results. False when there was nothing to run after all.
  virtual bool Step() = 0;
  // Called before Step() with the other slots' demand, for slots that can limit a step's length.
  virtual void OnContention(const Contention& /*contention*/) {}
  virtual double weight() const { return 1; }
  // If true, this slot never gets two steps in a row while another slot has a step to run.
  virtual bool yields() const { return false; }
};

class DeviceLoop {
 public:
  explicit DeviceLoop(const Clock* clock);
  ~DeviceLoop();  // stops
  DeviceLoop(const DeviceLoop&) = delete;
  DeviceLoop& operator=(const DeviceLoop&) = delete;

  // Wakes the loop; given to the mailboxes of its slots. Any thread.
  const std::shared_ptr<Signal>& signal() const { return signal_; }

  // Slots are not owned and must live until Remove() returns. Add and Remove take effect at the
  // next step boundary and return after it; any thread except the loop's own. Before Start() they
  // take effect at once.
  void Add(Slot* slot);
  void Remove(Slot* slot);

  void Start();
  void Stop();  // ends after the step in progress; idempotent
  bool started() const { return thread_.joinable(); }

  // For use without Start(): prepares all slots and runs one step of the slot whose turn it is.
  // False when no slot had work.
  bool RunOnce();
  // When RunOnce() could next have work, as of its last call.
  TimePoint next_work() const { return next_work_; }

 private:
  struct Seat {
    Slot* slot = nullptr;
    InstanceView view;
    bool was_ready = false;
    double step_ns = 0;  // Contention::step
    TimePoint last_ready = TimePoint::min();
  };
  Contention ContentionOf(size_t seat, TimePoint now) const;
  void Yield(TimePoint now);
  void Main();
  void ChangeSlots(bool add, Slot* slot);
  void ApplyChanges();

  const Clock& clock_;
  const std::shared_ptr<Signal> signal_;
  std::thread thread_;
  std::atomic<bool> stop_{false};

  // Loop thread.
  std::vector<Seat> seats_;
  std::vector<InstanceView> views_;
  const Slot* last_ = nullptr;  // whose step was the last
  double virtual_time_ = 0;     // LiftedUse()
  TimePoint next_work_ = TimePoint::max();

  // Requests to add or remove a slot.
  Mutex mutex_;
  CondVar applied_;
  struct Change {
    bool add = false;
    Slot* slot = nullptr;
  };
  std::vector<Change> changes_ GUARDED_BY(mutex_);
  uint64_t asked_ GUARDED_BY(mutex_) = 0, done_ GUARDED_BY(mutex_) = 0;
  std::atomic<bool> has_changes_{false};
};

}  // namespace tutti::engine
