// EngineBase: the common part of Engine and EncoderEngine: the DeviceLoop, its start and steps,
// draining and liveness. Threads: see the comments of the two classes.
#pragma once

#include <memory>

#include "base/clock.h"
#include "base/status.h"
#include "engine/pulse.h"

namespace tutti::engine {

class DeviceLoop;
class InstanceBase;

class EngineBase {
 public:
  EngineBase(const EngineBase&) = delete;
  EngineBase& operator=(const EngineBase&) = delete;

  void Start();  // starts the own loop's thread; not with an outside loop

  // Refuses new work from now on; requests in flight continue. Idempotent.
  void BeginDrain();
  bool draining() const;
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
