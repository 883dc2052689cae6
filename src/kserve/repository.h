// The models that the KServe v2 doors serve: those of api::Inference through adapters, and the
// built-in test models where they are asked for. Finds them, checks requests to them, counts them.
//
// One per process, made by the composition root, shared by the doors; any thread. Adapters are made
// when their model is first seen and stay.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/inference.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "kserve/model.h"
#include "kserve/statistics.h"

namespace tutti::kserve {

struct RepositoryOptions {
  std::string server_name = "tutti";  // of ServerMetadata; examples of Triton ask for "triton"
  std::string server_version = "0.0.0";
  bool test_models = false;  // simple, simple_string, ...: for trying clients
};

struct ServerMetadata {
  std::string name, version;
  std::vector<std::string> extensions;
};

struct IndexEntry {
  std::string name, version;
  bool ready = false;
  std::string reason;  // of one that is not ready
};

class Repository {
 public:
  struct Dependencies {  // all outlive the repository
    api::Inference* inference = nullptr;
    const api::HealthProbe* health = nullptr;
    const Clock* clock = nullptr;
  };

  Repository(RepositoryOptions options, Dependencies dependencies);
  ~Repository();
  Repository(const Repository&) = delete;
  Repository& operator=(const Repository&) = delete;

  ServerMetadata metadata() const;
  Status live() const;
  Status ready() const;

  // By name or alias; "" or "1" as the version. Errors: model_not_found, model_loading while there
  // are no models yet, invalid_value for a version that is no number.
  Result<std::shared_ptr<Model>> Find(std::string_view name, std::string_view version) const;
  Status ModelReady(std::string_view name, std::string_view version) const;
  std::vector<IndexEntry> Index(bool ready_only) const;
  // Of one model, or of all where `name` is empty.
  Result<std::vector<StatisticsSnapshot>> Statistics(std::string_view name,
                                                     std::string_view version) const;

  // Models are loaded at start; changing that is an operator's right, which no key has yet:
  // insufficient_scope.
  Status Load() const;
  Status Unload() const;

  // Finds the model, checks the request and starts it; what comes of it is counted. An expired
  // deadline is deadline_exceeded before anything else is looked at.
  Result<std::unique_ptr<Execution>> Infer(InferRequest request,
                                           std::shared_ptr<api::StreamWaker> waker);

 private:
  struct Entry;
  class Counted;
  Result<std::shared_ptr<Entry>> FindEntry(std::string_view name, std::string_view version) const;
  // Makes adapters for models that have none yet.
  void Refresh() const EXCLUDES(mutex_);

  const RepositoryOptions options_;
  const Dependencies deps_;
  mutable Mutex mutex_;
  mutable std::vector<std::shared_ptr<Entry>> entries_ GUARDED_BY(mutex_);
};

}  // namespace tutti::kserve
