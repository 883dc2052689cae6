// ModelRunner: the port through which the engine drives a model on a device. The engine links none
// of the implementations; tests use those of testing/fake_model_runner.h.
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
  size_t weight_bytes = 0;  // what a step reads of the model, as it lies in memory; 0: not told
};

// Owned by the composition root, called by the engine thread only.
class ModelRunner {
 public:
  virtual ~ModelRunner() = default;
  virtual RunnerLimits limits() const = 0;

  // Starts the step. The plan, and all it points to, stays unchanged until Collect returns. A CPU
  // runner does the whole step here; a GPU runner only enqueues it. At most one step is in flight.
  virtual void Launch(const StepPlan& plan) = 0;
  // Waits for the launched step and returns its result. Never throws; a failure is in the status.
  virtual StepResult Collect() = 0;

  // From now on a step that may be given up (StepPlan::may_give_up) is, soon after `urgent` is set.
  // `urgent` outlives every call; null: no more. A runner may as well finish every step.
  virtual void GiveUpWhen(const std::atomic<bool>* /*urgent*/) {}

  // Gets back a result that Collect returned, once it was read: its memory may serve the next step,
  // so that a steady step allocates nothing.
  virtual void Recycle(StepResult /*used*/) {}
};

}  // namespace tutti::engine
