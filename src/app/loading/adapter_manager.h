// AdapterManager: loads and unloads LoRA adapters of the models of this process at run time.
//
// Files are read and packed on a thread of its own with low priority, one adapter after another, so
// that requests go on meanwhile. Paths of clients lie in one folder, which the operator names: they
// are opened beneath it, symbolic links included. Adapters of a model that is unloaded come back
// when it is loaded again (LocalInference::KeepAdapter). Made by app::Serve after the models'
// inference and destroyed before it; any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "api/adapter_control.h"
#include "api/model_control.h"
#include "app/local_inference.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/strand.h"

namespace tutti::app {

class AdapterManager final : public api::AdapterControl {
 public:
  struct Options {
    std::string folder;     // of adapters
    size_t max_loaded = 0;  // adapters of all models, those of the start included
    // Loads a listed model, which an adapter is to be loaded for; may be null.
    std::function<void(const std::string& model, api::ModelControl::Done done)> load_base = nullptr;
    // Called when an adapter was unloaded whose base may not be loaded; may be null.
    std::function<void()> unloaded = nullptr;
  };
  // `inference` and `log` outlive it.
  AdapterManager(LocalInference& inference, Options options, Logger& log);
  ~AdapterManager() override;

  // Names that adapters may not have, besides those of models: of aliases. Call it before Load().
  void RefuseNames(std::function<bool(std::string_view)> taken) { taken_ = std::move(taken); }

  void Load(api::AdapterRequest request, Done done) override;
  void Unload(const std::string& name, Done done) override;

 private:
  // `loads_base`: whether a base that is not loaded may be loaded first, which ends in another
  // call.
  void LoadOnStrand(const api::AdapterRequest& request, bool loads_base, const Done& done);
  Status LoadNow(const api::AdapterRequest& request);
  Result<std::string> InFolder(const std::string& path) const;

  LocalInference& inference_;
  const Options options_;
  Logger& log_;
  std::function<bool(std::string_view)> taken_;
  Strand strand_;  // last: its tasks use the others
};

}  // namespace tutti::app
