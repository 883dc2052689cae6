// DeviceLoop: the engine thread of one device. It runs the steps of the device's slots (decoder and
// encoder models) one at a time, so that forward passes of one device never overlap and never
// oversubscribe its cores.
//
// An idle loop waits on one eventfd, with the next deadline as timeout, and uses no CPU.
//
// Also here:
//   Slot        what the loop runs: the interface of a model on the device
//   Pulse       records the progress of a slot; Heartbeat is a copy of it for other threads, and
//               LiveBy() turns a heartbeat into the result of the liveness probe
//   EngineBase  the base of Engine and EncoderEngine: a loop with one model, its start, steps,
//               draining and liveness
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "engine/mailbox.h"
#include "engine/policy/share_device.h"

namespace tutti::engine {

class InstanceBase;
class LiveWatch;

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
  // Another slot had a step to run within the last kContentionTime, so that new work for it is
  // likely to arrive during the next step.
  bool lately = false;
};

inline constexpr Duration kContentionTime = std::chrono::seconds(1);

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

// Whether a slot makes progress, for the liveness probe.
struct Heartbeat {
  // Last iteration of the loop. While busy the loop iterates at least every 0.5 s between steps.
  TimePoint last_round{};
  bool busy = false;         // it has requests
  Duration average_step{0};  // moving average; zero before the first
};

// Period of the loop's iterations while it has requests but no step to run.
inline constexpr Duration kIdleBeat = std::chrono::milliseconds(500);

// Heartbeat of a slot: written by the engine thread, read by any.
class Pulse {
 public:
  // --- engine thread ---
  void Beat(TimePoint now);
  // Called as soon as a request arrives: the slot counts as busy from then on.
  void HasRequests() { alive_.store(true, std::memory_order_release); }
  void StepTook(Duration took);
  void Publish(bool has_requests, TimePoint now);  // after each step

  // --- any thread ---
  Heartbeat Read(const Mailbox& mailbox) const;

 private:
  double average_ns_ = 0;  // engine thread
  std::atomic<int64_t> beat_ns_{0}, step_ns_{0};
  std::atomic<bool> alive_{false};
};

// Error engine_stalled when the slot has requests and its last iteration is older than 10 s and
// than 20 average steps.
Status LiveBy(const Heartbeat& beat, TimePoint now);

// The common part of Engine and EncoderEngine: the DeviceLoop, its start and steps, draining and
// liveness. Threads: see the comments of the two classes.
class EngineBase {
 public:
  EngineBase(const EngineBase&) = delete;
  EngineBase& operator=(const EngineBase&) = delete;

  void Start();  // starts the own loop's thread; not with an outside loop

  // Refuses new work from now on; requests in flight continue. Idempotent.
  void BeginDrain();
  bool draining() const;
  // Accepted choices (of an encoder: requests) that have not ended, those in preparation included.
  int unfinished() const;
  // BeginDrain, then waits until nothing is in flight or `deadline` has passed on the engine's
  // clock; what is left then ends with UNAVAILABLE [draining]. True when everything had finished by
  // itself. Not from the engine thread. Needs a started loop.
  bool Drain(TimePoint deadline);

  // Without Start(): takes what was submitted, runs one step or batch, delivers. False when there
  // was nothing to run.
  bool RunOneStep();
  // Without Start(): when RunOneStep() could next do something without a new submission; max() =
  // never.
  TimePoint NextWork() const;

  Heartbeat heartbeat() const;
  LiveWatch& live() const;  // snapshots for operators; what of it any thread may call
  // Whether the engine thread makes progress while it has requests. Reports a stall only after
  // more than max(10 s, 20 average steps) without progress.
  Status Live() const;

 protected:
  // With `outside`, shares that device's thread with other slots; without, owns a loop of its own.
  EngineBase(const Clock* clock, DeviceLoop* outside);
  ~EngineBase();  // after Detach()
  // The instance belongs to the derived class: attached in its constructor, detached in its
  // destructor, before the instance is destroyed.
  void Attach(InstanceBase* instance);
  void Detach();

  const Clock& clock() const { return clock_; }
  DeviceLoop& loop() const { return loop_; }

 private:
  const Clock& clock_;
  const std::unique_ptr<DeviceLoop> own_loop_;
  DeviceLoop& loop_;
  InstanceBase* instance_ = nullptr;
};

}  // namespace tutti::engine
