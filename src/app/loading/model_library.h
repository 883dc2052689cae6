// ModelLibrary: fetches models of a hub into the cache while the process serves, and lists them
// with the ModelManager.
//
//   Begin --> hub's list --> files --> names in the cache --> ModelManager::AddPulled --> ended
//     |            |            |              |
//     +------------+------------+--------------+-- error, Pull destroyed, Stop() ----------> ended
//
// Each pull has a thread (models::Pull() blocks), kMaxPulls at most. Owned by the function that
// serves; it ends before the manager. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "api/model_library.h"
#include "app/loading/model_manager.h"
#include "app/loading/pulled_names.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "services/models/hub_name.h"
#include "services/models/hub_settings.h"
#include "services/models/pull.h"

namespace tutti::app {

// The contents of a pull, for clients: the largest ones each, the others as one.
std::vector<api::PullBlob> ShownBlobs(const models::PullState& state);

class ModelLibrary final : public api::ModelLibrary {
 public:
  // Each pull fetches up to four files at once.
  static constexpr size_t kMaxPulls = 4;

  struct Options {
    bool allowed = false;  // --pull on-demand: connections to the hub
    models::HubSettings hub;
    std::string record;  // file of pulled_names.h; empty: names last as long as the process
  };
  struct Stats {
    uint64_t pulled = 0, failed = 0;
    uint64_t bytes = 0;  // fetched by pulls that ended well
    int running = 0;
  };

  // `manager` and `log` outlive it.
  ModelLibrary(Options options, ModelManager& manager, Logger& log);
  ~ModelLibrary() override;  // Stop()

  // Lists again what Options::record names, as far as its files are in the cache; the rest is
  // dropped with a warning. No connection is made. Called once, after ModelManager::List().
  void Restore();
  // Ends the pulls that run, and waits for their threads: a second at most. Idempotent; one thread.
  void Stop();
  Stats stats() const;

  bool fetches() const override { return options_.allowed; }
  Result<std::unique_ptr<Pull>> Begin(const std::string& name) override;
  Status Copy(const std::string& source, const std::string& name) override;
  void Remove(const std::string& model, Done done) override;

 private:
  class Job;
  class Handle;
  struct Running {
    std::shared_ptr<Job> job;
    std::thread thread;
  };

  void Run(Job& job);
  Status Fetch(Job& job, uint64_t* fetched);
  // `commit`: that the files are of; empty for a known model, whose `remove_files` is null.
  Status List(const models::HubName& name, const std::string& served_name, const std::string& path,
              const std::string& commit);
  Status RestorePulled(const PulledNames::Pulled& pulled);
  void RecordPulled(PulledNames::Pulled pulled);
  // Changes the record, without the names that are no longer listed.
  void Record(const std::function<void(PulledNames*)>& change);

  const Options options_;
  ModelManager& manager_;
  Logger& log_;
  mutable Mutex mutex_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::vector<Running> running_ GUARDED_BY(mutex_);  // with those that ended since the last Begin()
  Stats counts_ GUARDED_BY(mutex_);
  Mutex record_mutex_;  // held while the file is written
  PulledNames names_ GUARDED_BY(record_mutex_);
};

}  // namespace tutti::app
