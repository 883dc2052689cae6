// LocalInference: the model side of a process: the gateway and the loaded models behind
// api::Inference, and the health probes of the models. `tutti serve`, `run`, `chat`, the benchmarks
// and the C++ library use it.
//
// Owned by the main object of each of these programs; thread-safe after construction. Load()
// blocks.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/backend.h"
#include "app/config/adapter_options.h"
#include "app/config/settings.h"
#include "app/loading/model_loader.h"
#include "base/clock.h"
#include "base/log.h"
#include "gateway/gateway.h"
#include "gateway/live_view.h"
#include "kv/disk/prefix_disk.h"
#include "telemetry/metrics.h"

namespace tutti::app {

class LocalInference final : public Backend {
 public:
  // `settings`, `metrics` and `log` (both may be null) outlive it.
  LocalInference(const Settings& settings, telemetry::MetricsRegistry* metrics,
                 Logger* log = nullptr);
  ~LocalInference() override;

  // Models that are opened from now on keep prefixes there. Before the first Open(); null: nowhere.
  void KeepPrefixes(std::shared_ptr<kv::PrefixDisk> prefixes) { prefixes_ = std::move(prefixes); }
  // Announces the names of the models to be served: started() and ready() wait for all of them, and
  // requests to a model that is still loading get model_loading. Without this call one model of any
  // name is expected.
  void Expect(std::vector<std::string> names);
  // Reads the header of a model file and checks the options against it; see OpenedModel. `fuse`: as
  // LoadContext's.
  Result<OpenedModel> Open(const ModelRef& ref, bool fuse = true) const;
  // The same for a model that is loaded while others run: it is packed by few threads.
  Result<OpenedModel> OpenInBackground(const ModelRef& ref) const;
  // Warning about options that holds for any model: ThreadsNotice(), or "".
  std::string notice() const { return ThreadsNotice(settings_); }
  // Loads an opened model and serves it together with the models loaded before, on their threads.
  // `progress` as for OpenedModel::Load(). `step_by_hand`: the engine gets no thread; its owner
  // calls RunOneStep(). Memory or threads that the system refuses are errors too.
  Status Load(OpenedModel model, std::function<bool(size_t, size_t)> progress = nullptr,
              bool step_by_hand = false);
  // Adapters of the start, which are loaded with their models. Before the first of these.
  void UseAdapters(std::vector<AdapterRef> adapters);
  // Loads an adapter that was loaded at run time again with each later load of its base. It
  // replaces one of its name. `root`: as for OpenAdapter().
  void KeepAdapter(AdapterRef adapter, std::string root);
  // The end of that, also for an adapter of the start. False: there is none of that name.
  bool DropAdapter(const std::string& name);
  // The adapters of both kinds, with their bases, loaded or not.
  std::vector<AdapterRef> KeptAdapters() const;
  // Loads adapters at run time; outlives the requests. Before the servers are made.
  void UseAdapterControl(api::AdapterControl* control) { adapter_control_ = control; }
  // Reads an adapter of a served model; blocks for its files. The result is not served yet. `root`:
  // as in files::OpenSource. Errors: those of the files; invalid_value if the model takes none.
  Result<std::shared_ptr<const gateway::ServedModel>> OpenAdapter(const gateway::ServedModel& base,
                                                                  const AdapterRef& adapter,
                                                                  const std::string& root) const;
  // --- models that are loaded and unloaded at run time (app::ModelManager); one thread ---

  // Starts the compute threads and the engine's, with the priority of the calling thread. Errors:
  // internal_error, out_of_memory.
  Status StartDevice();
  // Load() in two steps: makes the model, and begins to serve it.
  Result<std::shared_ptr<const gateway::ServedModel>> Make(
      OpenedModel model, std::function<bool(size_t, size_t)> progress, bool step_by_hand = false);
  // With its adapters. Errors: those of the files of an adapter of the start; nothing is served
  // then. An adapter of run time whose files have changed for the worse is dropped.
  Status Serve(const std::shared_ptr<const gateway::ServedModel>& served);
  // The last step of an unload, after Gateway::RemoveModel(): drops the reference to the model.
  void Forget(const gateway::ServedModel& model);
  // The loaded model of that name; null if there is none.
  std::shared_ptr<const gateway::ServedModel> Loaded(const std::string& name) const;

  // From now on started() and ready() report the reason code of `why`, but not its message, which
  // may contain paths.
  void LoadFailed(const Status& why);

  // Loads and unloads the models; outlives the requests. Before the servers are made.
  void UseControl(api::ModelControl* control) { control_ = control; }
  // Fetches models; outlives the requests. Before the servers are made.
  void UseLibrary(api::ModelLibrary* library) { library_ = library; }

  gateway::Gateway& gateway() { return gateway_; }

  // Backend
  api::Inference& models() override { return gateway_; }
  const Clock& clock() const override { return clock_; }
  std::atomic<api::LoadLevel>& memory_level() override { return device_->memory_level(); }
  api::AdapterControl* adapters() override { return adapter_control_; }
  api::ModelControl* control() override { return control_; }
  api::ModelLibrary* library() override { return library_; }
  api::LiveSource* live_source() override { return &live_; }
  void UseTraces(std::shared_ptr<api::RequestTraces> traces) override {
    gateway_.UseTraces(std::move(traces));
  }
  void BeginDrain() override;
  bool Drain(Duration limit) override;

  // api::HealthProbe
  Status started() const override;
  Status live() const override;
  Status ready() const override;

 private:
  Status ServeWithAdapters(const std::shared_ptr<const gateway::ServedModel>& served);
  std::vector<std::shared_ptr<const gateway::ServedModel>> Served() const;
  struct KeptAdapter {
    AdapterRef ref;
    std::string root;
    bool at_start = false;
  };
  bool Keeps(const AdapterRef& adapter) const;
  std::vector<KeptAdapter> KeptAdaptersOf(const gateway::ServedModel& base);
  // Ends requests that wait for an adapter of run time which cannot be loaded again.
  void AbandonAdapter(const std::string& name, const Status& why);

  const Settings& settings_;
  telemetry::MetricsRegistry* const metrics_;
  SteadyClock clock_;
  const std::shared_ptr<Device> device_;  // of all models; a loading thread's
  gateway::Gateway gateway_;
  gateway::LiveView live_{gateway_, clock_};
  std::shared_ptr<kv::PrefixDisk> prefixes_;
  api::ModelControl* control_ = nullptr;
  api::ModelLibrary* library_ = nullptr;
  std::atomic<bool> draining_{false};
  api::AdapterControl* adapter_control_ = nullptr;
  Logger* const log_;  // may be null
  mutable Mutex mutex_;
  std::vector<KeptAdapter> kept_ GUARDED_BY(mutex_);
  // Base of adapters that name none: the first model that generates.
  std::string default_base_ GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<const gateway::ServedModel>> served_ GUARDED_BY(mutex_);
  // Models whose first load is awaited. Models that are unloaded later are not.
  size_t expected_ GUARDED_BY(mutex_) = 1;
  std::string load_failure_ GUARDED_BY(mutex_);  // code; empty = none
};

}  // namespace tutti::app
