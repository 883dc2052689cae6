#include "engine/engine_base.h"

#include "base/check.h"
#include "engine/admission_state.h"
#include "engine/device_loop.h"
#include "engine/model_instance.h"

namespace tutti::engine {

EngineBase::EngineBase(const Clock* clock, DeviceLoop* outside)
    : clock_(*clock),
      own_loop_(outside == nullptr ? std::make_unique<DeviceLoop>(clock) : nullptr),
      loop_(outside == nullptr ? *own_loop_ : *outside) {}

EngineBase::~EngineBase() = default;

void EngineBase::Attach(InstanceBase* instance) {
  instance_ = instance;
  loop_.Add(instance);
}

void EngineBase::Detach() {
  // Submissions that come while the loop lets the instance go are refused.
  instance_->ledger()->closed.store(true, std::memory_order_release);
  loop_.Remove(instance_);
  if (own_loop_ != nullptr) own_loop_->Stop();
}

void EngineBase::Start() {
  CHECK(own_loop_ != nullptr) << "an outside loop is started by its owner";
  own_loop_->Start();
}

void EngineBase::BeginDrain() {
  instance_->ledger()->draining.store(true, std::memory_order_release);
}

bool EngineBase::draining() const {
  return instance_->ledger()->draining.load(std::memory_order_acquire);
}

bool EngineBase::Drain(TimePoint deadline) {
  CHECK(loop_.started()) << "Drain waits for the engine thread";
  return DrainQueue(*instance_->ledger(), *loop_.signal(), clock_, deadline);
}

bool EngineBase::RunOneStep() {
  CHECK(!loop_.started()) << "the engine has a thread of its own";
  return loop_.RunOnce();
}

TimePoint EngineBase::NextWork() const { return loop_.next_work(); }

Heartbeat EngineBase::heartbeat() const { return instance_->heartbeat(); }

Status EngineBase::Live() const { return LiveBy(heartbeat(), clock_.Now()); }

}  // namespace tutti::engine
