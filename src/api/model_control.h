// ModelControl: loads and unloads the models of a process at run time, for the servers' admin
// routes. app::ModelManager implements it; a server without one has the models that it started
// with.
//
// Any thread; no call blocks. `done` is called exactly once, possibly before the call returns, on
// any thread; it must neither block nor throw.
#pragma once

#include <functional>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace tutti::api {

class ModelControl {
 public:
  using Done = std::function<void(Status)>;

  virtual ~ModelControl() = default;

  // Loads a listed model; a loaded model is a success. `done`: when it is loaded. Errors:
  // model_not_found, model_too_large, model_load_failed, draining.
  virtual void Load(const std::string& model, Done done) = 0;
  // Unloads a model, pinned or not: new requests wait or fail, running ones end, its memory is
  // released. An unloaded model is a success. `done`: when its memory is released. Errors:
  // model_not_found, draining.
  virtual void Unload(const std::string& model, Done done) = 0;
  // Sets how long a loaded model stays after its last request; zero unloads it as soon as it is
  // idle. No effect on pinned models and on models that are not loaded.
  virtual void KeepAlive(const std::string& model, Duration keep_alive) = 0;
  // Reads the folder of models again. New files are listed; unloaded models whose files are gone
  // are removed.
  virtual void Rescan() = 0;
};

}  // namespace tutti::api
