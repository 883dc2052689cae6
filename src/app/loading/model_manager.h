// ModelManager: loads and unloads the models of a serving process at run time, within a memory
// budget: those named on the command line, and those of a folder (--models).
//
//   unloaded --wanted--> loading ----> loaded --unload--> unloading --> unloaded
//      ^                    |                                |
//      |  next request      v                                +--> loading, if wanted meanwhile
//      +---------------- failed
//
// wanted: a request names the model, or an operator loads it. unload: an operator asks for it, the
// keep_alive has passed since the last request, or another model needs the memory (evicted).
//
//   loading    counted against the budget before a weight is read. One model at a time, in the
//              order in which they were wanted, by a thread of low priority.
//   unloading  the gateway no longer finds the model; requests that have found it end, at the
//              latest after the unload limit. Then the engine leaves the device loop, and weights
//              and KV cache are released.
//
// The loader thread makes all moves; each method documents its threads. Lock order: the manager's
// mutex, then the gateway's.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "api/model_control.h"
#include "api/types.h"
#include "app/config/settings.h"
#include "app/loading/model_loader.h"
#include "app/loading/model_registry.h"
#include "app/local_inference.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "gateway/gateway.h"
#include "gateway/served_model.h"

namespace tutti::app {

struct ModelManagerOptions {
  std::string folder;             // of further models; empty: none
  std::vector<std::string> pins;  // of the folder: loaded at start, never evicted
  int64_t budget = 0;             // bytes of all models together; 0: no limit
  bool budget_is_set = false;     // by the operator; else it does not bind the models of the start
  Duration keep_alive = api::kForever;  // of models that are not pinned
  bool wait = true;                     // false: requests for unloaded models get model_loading
  gateway::WaitLimits wait_limits;      // of requests for unloaded models
  Duration unload_limit = std::chrono::seconds(30);  // for running requests of an unloaded model
};

// Errors: invalid_value.
Result<ModelManagerOptions> ModelManagerOptionsFrom(const Settings& settings);

// "5m", "1h30m", "300" (seconds), "0", "off" or a negative one (never). Errors: invalid_value of
// `param`.
Result<Duration> ParseKeepAlive(std::string_view text, const std::string& param);

class ModelManager final : public gateway::ModelSource, public api::ModelControl {
 public:
  enum class UnloadReason : uint8_t { kRequest, kKeepAlive, kEvicted };

  struct Stats {
    std::array<int, 5> models{};  // by api::ModelState
    int64_t bytes = 0, budget = 0;
    int waiting = 0;  // requests
    uint64_t loads = 0, failed_loads = 0;
    std::array<uint64_t, 3> unloads{};  // by UnloadReason
    Duration loading{0};                // time of all loads together
  };

  // `inference` and `log` outlive it.
  ModelManager(ModelManagerOptions options, LocalInference& inference, Logger& log);
  ~ModelManager() override;  // Stop()

  // --- one thread, in this order ---

  // Lists the models that the caller loads, pinned, and then those of the folder. `bytes`: of each.
  // Errors: model_path; invalid_value for models that exceed the budget together, and for a pin
  // that names no model.
  Status List(const std::vector<ModelRef>& models, const std::vector<int64_t>& bytes);
  // Called with the bytes that models are about to take, and, negative, with released ones.
  void OnMemory(std::function<void(int64_t)> on_memory) { on_memory_ = std::move(on_memory); }
  // Called after each change of a model's state, under the manager's mutex; must not block. Before
  // List().
  void OnChange(std::function<void()> on_change) { on_change_ = std::move(on_change); }
  // The caller has loaded its models: models are loaded and unloaded from now on. Errors:
  // internal_error, out_of_memory.
  Status Start();
  // Abandons a load; ends the thread. Idempotent.
  void Stop();

  // Unloads models whose keep_alive has passed, and ends requests and calls of Load() that waited
  // too long. To be called a few times a second, by one thread.
  void Look();

  // --- any thread ---

  size_t folder_models() const;
  int64_t budget() const { return options_.budget; }
  std::vector<std::string> names() const;  // of all listed models
  Stats stats() const;

  // --- models of a hub, for ModelLibrary; any thread ---

  // Whether a model or a further name of one is called this.
  bool Lists(const std::string& name) const;
  // Lists a model whose files are in a cache: not pinned, not loaded. If a listed model has the
  // same path, it gets the name as a further one. `remove_files`: called by the loader thread when
  // the model is removed; null: it cannot be removed. Errors: model_exists for the name of another
  // model; model_limit; alias_limit.
  Status AddPulled(ModelRef ref, std::function<Status()> remove_files);
  // As api::ModelLibrary::Copy(); the name is a valid one.
  Status AddAlias(const std::string& model, const std::string& alias);
  // As api::ModelLibrary::Remove().
  void Remove(const std::string& model, Done done);

  // Publishes the list again, after adapters of an unloaded model have changed.
  void Relist();

  // The name may be that of an adapter: then its base is loaded, and the adapter with it.
  Status Want(const std::string& model) override;
  // At most as many calls wait as requests may; a call whose model is not even being loaded after
  // the time limit of requests ends with model_loading. Further errors: queue_full.
  void Load(const std::string& model, Done done) override;
  void Unload(const std::string& model, Done done) override;
  void KeepAlive(const std::string& model, Duration keep_alive) override;
  void Rescan() override;

 private:
  struct LoadWait {  // a call of Load()
    Done done;
    TimePoint since;
  };
  struct Entry {
    ModelRef ref;
    std::vector<std::string> aliases;  // further names, by api::ModelLibrary::Copy()
    bool in_folder = false, pinned = false;
    bool gone = false;  // its file is no longer in the folder: forgotten when it rests
    std::function<Status()> remove_files;  // null: the model was not pulled
    std::vector<Done> on_removed;          // not empty: it is being removed
    bool known = false;                    // `info` was read from the files
    api::ModelInfo info;  // as of the last time they were read; the status is not used
    int64_t bytes = 0;    // of weights, KV cache and activations
    api::ModelState state = api::ModelState::kUnloaded;
    Status failure;  // kFailed, for clients
    TimePoint failed_at{};
    // What is to be done.
    uint64_t wanted = 0;  // order of the wishes to load; 0: none
    TimePoint wanted_since{};
    bool unload = false;
    UnloadReason why = UnloadReason::kRequest;
    std::vector<LoadWait> on_loaded;
    std::vector<Done> on_unloaded;
    // From the reading of the header to the load.
    std::optional<OpenedModel> opened;
    // kLoaded and kUnloading.
    std::shared_ptr<const gateway::ServedModel> served;
    TimePoint loaded_at{}, unload_since{};
    bool ended = false;  // running requests were ended at the limit
  };

  enum class Job : uint8_t {
    kNone,
    kStop,
    kOpen,
    kLoad,
    kRefuse,
    kEndRequests,
    kRelease,
    kRemove,
    kRescan
  };
  struct Work {
    Job job = Job::kNone;
    Entry* entry = nullptr;
    std::optional<OpenedModel> opened = std::nullopt;  // kLoad
    Status why = {};                                   // kRefuse
  };
  enum class Fit : uint8_t { kFits, kWaits, kNever };

  void EndLateLoads();
  void Main();
  Work WaitForWork();
  Work NextWork(TimePoint now) REQUIRES(mutex_);
  Work ChooseWork(TimePoint now) REQUIRES(mutex_);
  Work NextLoad(TimePoint now) REQUIRES(mutex_);
  // Whether the models that are loaded leave room for the entry; begins to unload others if they
  // can.
  Fit MakeRoom(const Entry& entry, TimePoint now) REQUIRES(mutex_);
  Entry* Victim(const Entry& entry, TimePoint now) REQUIRES(mutex_);
  static bool Idle(const Entry& entry);
  void BeginUnload(Entry& entry, UnloadReason why, TimePoint now) REQUIRES(mutex_);

  void RunOpen(Entry& entry);
  void RunLoad(Entry& entry, OpenedModel opened);
  void RunRelease(Entry& entry);
  void RunRemove(Entry& entry);
  static std::vector<Done> TakeLoads(Entry& entry);  // empties on_loaded
  size_t LoadsThatWait() const REQUIRES(mutex_);
  static void CallAll(const std::vector<Done>& all, const Status& status) {
    for (const Done& done : all) done(status);
  }
  void RunRescan();
  // Ends a load, and the requests that wait for it, with an error.
  void Fail(Entry& entry, const Status& why);
  // The error for clients: without paths.
  static Status FailureOf(const Entry& entry, const Status& why);
  Status TooLarge(const Entry& entry) const REQUIRES(mutex_);

  // By its name or a further one; null if there is none.
  Entry* FindLocked(const std::string& model) const REQUIRES(mutex_);
  // Whether an adapter, loaded or not, has the name.
  bool IsAdapter(const std::string& name) const;
  Status AddAliasLocked(Entry& entry, const std::string& alias) REQUIRES(mutex_);
  // OK if the entry may be removed with its files. Errors: model_in_use.
  static Status CheckRemovable(const Entry& entry);
  // `retry`: also a model that failed to load a moment ago.
  Status WantLocked(Entry& entry, bool retry) REQUIRES(mutex_);
  // Neither loaded nor on its way there or back.
  static bool Rests(const Entry& entry) {
    return entry.state == api::ModelState::kUnloaded || entry.state == api::ModelState::kFailed;
  }
  // Removes entries whose files are gone and that nobody wants; whether there were any.
  bool ForgetGone() REQUIRES(mutex_);
  void MergeFolder(std::vector<ModelRef> found) REQUIRES(mutex_);
  void Publish() REQUIRES(mutex_);  // to the gateway

  const ModelManagerOptions options_;
  LocalInference& inference_;
  gateway::Gateway& gateway_;
  const Clock& clock_;
  Logger& log_;
  std::function<void(int64_t)> on_memory_;  // set before Start()
  std::function<void()> on_change_;         // may be null
  std::atomic<bool> stop_{false}, cancel_load_{false};
  mutable Mutex mutex_;
  CondVar changed_;
  // Those of the command line, then the folder's by name. Only the loader thread removes entries.
  std::vector<std::unique_ptr<Entry>> entries_ GUARDED_BY(mutex_);
  uint64_t wishes_ GUARDED_BY(mutex_) = 0;
  bool rescan_ GUARDED_BY(mutex_) = false;
  bool unpublished_ GUARDED_BY(mutex_) = false;  // headers were read since the last Publish()
  TimePoint published_at_ GUARDED_BY(mutex_);
  Stats counts_ GUARDED_BY(mutex_);  // the counters
  std::thread thread_;
};

}  // namespace tutti::app
