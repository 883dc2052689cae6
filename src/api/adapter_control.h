// AdapterControl: loads and unloads LoRA adapters of served models at run time, for the servers'
// admin routes. app::AdapterManager implements it; a server without one has the adapters that it
// started with.
//
// Any thread; no call blocks. `done` is called exactly once, possibly before the call returns, on
// any thread, unless the process ends first; it must neither block nor throw.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"

namespace tutti::api {

struct AdapterRequest {
  std::string name;      // under which it is served
  std::string path;      // in the folder of adapters
  std::string base;      // id of the model; empty: the default one
  double scale = 1;      // multiplies the file's own
  bool replace = false;  // an adapter of that name; running requests end with the old one
};

class AdapterControl {
 public:
  using Done = std::function<void(Status)>;

  virtual ~AdapterControl() = default;

  // Errors: adapter_exists, model_not_found (of the base), adapter_limit, adapter_path, overloaded,
  // those of loading the base, and those of the files (model::LoraFile, model::LoraAdapter).
  virtual void Load(AdapterRequest request, Done done) = 0;
  // New requests for the name get model_not_found; running ones end as they began, and then its
  // memory is released. Errors: model_not_found, overloaded.
  virtual void Unload(const std::string& name, Done done) = 0;
};

}  // namespace tutti::api
