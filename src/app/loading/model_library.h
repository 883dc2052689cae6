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
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "api/model_library.h"
#include "app/loading/model_manager.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "services/models/hub_name.h"
#include "services/models/hub_settings.h"

namespace tutti::app {

class ModelLibrary final : public api::ModelLibrary {
 public:
  // Each pull fetches up to four files at once.
  static constexpr size_t kMaxPulls = 4;

  struct Options {
    bool allowed = false;  // --pull on-demand: connections to the hub
    models::HubSettings hub;
  };
  struct Stats {
    uint64_t pulled = 0, failed = 0;
    uint64_t bytes = 0;  // fetched by pulls that ended well
    int running = 0;
  };

  // `manager` and `log` outlive it.
  ModelLibrary(Options options, ModelManager& manager, Logger& log);
  ~ModelLibrary() override;  // Stop()

  // Ends the pulls that run, and waits for their threads: a second at most. Idempotent; one thread.
  void Stop();
  Stats stats() const;

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

  const Options options_;
  ModelManager& manager_;
  Logger& log_;
  mutable Mutex mutex_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::vector<Running> running_ GUARDED_BY(mutex_);  // with those that ended since the last Begin()
  Stats counts_ GUARDED_BY(mutex_);
};

}  // namespace tutti::app
