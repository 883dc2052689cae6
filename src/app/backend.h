// Backend: the model side of a serving process. LocalInference runs the models in this process;
// RemoteModels forwards to worker processes. State, the servers and the shutdown code depend on
// this interface only.
#pragma once

#include <atomic>
#include <memory>

#include "api/adapter_control.h"
#include "api/inference.h"
#include "api/live_state.h"
#include "api/model_control.h"
#include "api/model_library.h"
#include "api/request_trace.h"
#include "api/types.h"
#include "base/clock.h"

namespace tutti::app {

// Thread-safe; Drain() blocks.
class Backend : public api::HealthProbe {
 public:
  // The models without admission control; servers call State::inference() instead.
  virtual api::Inference& models() = 0;
  virtual const Clock& clock() const = 0;
  // Memory level of the process. MemoryWatch writes it; admission of new requests reads it.
  virtual std::atomic<api::LoadLevel>& memory_level() = 0;
  // Loads and unloads models at run time; null: the models are those of the start.
  virtual api::ModelControl* control() { return nullptr; }
  // Fetches, names and removes models at run time; null: this process does not.
  virtual api::ModelLibrary* library() { return nullptr; }

  // Loads adapters at run time; null: this process does not.
  virtual api::AdapterControl* adapters() { return nullptr; }

  // Snapshots of the engines of this process; null: they are in others.
  virtual api::LiveSource* live_source() { return nullptr; }
  // Adds the workers that have the engines of this process.
  virtual void ListWorkers(api::LiveState* /*state*/) const {}
  // Requests without a trace get one from here. Before the first request.
  virtual void UseTraces(std::shared_ptr<api::RequestTraces> /*traces*/) {}

  // From now on new requests are refused (draining) and readyz fails; running requests continue.
  virtual void BeginDrain() = 0;
  // Calls BeginDrain() and blocks for running requests; those that still run at `limit` end with an
  // error. Returns true if all have finished by themselves.
  virtual bool Drain(Duration limit) = 0;
};

}  // namespace tutti::app
