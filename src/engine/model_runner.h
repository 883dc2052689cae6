// ModelRunner: the interface through which the engine runs a decoder model on a device. The engine
// links no implementation; tests use those of testing/fake_model_runner.h.
#pragma once

#include <atomic>

#include "base/status.h"
#include "engine/step_plan.h"

namespace tutti::engine {

struct RunnerLimits {
  int kv_blocks = 0;        // blocks of kBlockTokens in the device's KV memory
  int max_step_tokens = 0;  // rows the scratch was sized for: a plan never holds more
  int max_step_slices = 0;
  int context = 0;  // tokens per sequence the model and its position tables allow
  int vocab_size = 0;
  size_t weight_bytes = 0;  // weights that a step reads, as stored in memory; 0: unknown
};

// Owned by the code that creates the engine; called on the engine thread only.
class ModelRunner {
 public:
  virtual ~ModelRunner() = default;
  virtual RunnerLimits limits() const = 0;

  // Starts the step. The plan, and all it points to, stays unchanged until Collect returns. A CPU
  // runner does the whole step here; a GPU runner only enqueues it. At most one step is in flight.
  virtual void Launch(const StepPlan& plan) = 0;
  // Waits for the launched step and returns its result. Never throws; a failure is in the status.
  virtual StepResult Collect() = 0;

  // Makes later steps with StepPlan::abortable abort soon after `urgent` is set. `urgent` must
  // outlive all later calls; null turns this off. A runner may ignore it and finish every step.
  virtual void SetAbortFlag(const std::atomic<bool>* /*urgent*/) {}

  // Returns a result of Collect after use, so that its memory can be reused: in steady state a step
  // allocates nothing.
  virtual void Recycle(StepResult /*used*/) {}
};

}  // namespace tutti::engine
