// The models that the KServe v2 servers offer: those of api::Inference through adapters, and the
// built-in test models if they are enabled. Finds models, checks requests to them and counts
// requests.
//
// One per process, owned by the composition root and shared by the servers; any thread. The adapter
// of a model is made for each request from what the inference API lists then: models come, go and
// change at run time. Only the statistics are kept, by the model's id.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/caller.h"
#include "api/inference.h"
#include "api/model_control.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "protocol/kserve/model.h"

namespace tutti::kserve {

// --- statistics of a model ---
//
// Counts and summed times since the model was made, for the statistics extension of KServe v2, from
// which clients compute differences. Any thread.

struct DurationStat {
  uint64_t count = 0;
  uint64_t ns = 0;
  void Add(Duration took, uint64_t times = 1) {
    count += times;
    ns += static_cast<uint64_t>(took.count());
  }
};

struct BatchStat {
  uint64_t batch_size = 0;
  DurationStat input, infer, output;
};

struct StatisticsSnapshot {
  std::string name, version;
  int64_t last_inference_ms = 0;                            // unix
  uint64_t inference_count = 0;                             // batch items that were inferred
  uint64_t execution_count = 0;                             // executions of the model for them
  DurationStat success, fail, queue, input, infer, output;  // success and fail: whole requests
  std::vector<BatchStat> batches;                           // by size
};

class Statistics {
 public:
  void Success(Duration took, const Spent& spent, int64_t unix_ms);
  void Fail(Duration took);

  StatisticsSnapshot Read() const;  // without names

 private:
  // Sizes of a request's batch; those of a hostile client must not fill the memory.
  static constexpr size_t kMaxBatches = 256;

  mutable Mutex mutex_;
  StatisticsSnapshot sum_ GUARDED_BY(mutex_);
  std::map<uint64_t, BatchStat> batches_ GUARDED_BY(mutex_);
};

// --- the models ---

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
    api::ModelControl* control = nullptr;  // null: models are not loaded at run time
  };

  Repository(RepositoryOptions options, Dependencies dependencies);
  ~Repository();
  Repository(const Repository&) = delete;
  Repository& operator=(const Repository&) = delete;

  ServerMetadata metadata() const;
  Status live() const;
  Status ready() const;

  // In each call below, a model that `caller` may not use is as if not there; null: no callers.
  //
  // Finds a model by name or alias, with "" or "1" as the version. Errors: model_not_found,
  // model_loading while there are no models yet or the model's files are being read, invalid_value
  // for a version that is no number.
  Result<std::shared_ptr<Model>> Find(std::string_view name, std::string_view version,
                                      const api::CallerRef& caller) const;
  Status ModelReady(std::string_view name, std::string_view version,
                    const api::CallerRef& caller) const;
  std::vector<IndexEntry> Index(bool ready_only, const api::CallerRef& caller) const;
  // Statistics of one model, or of all models if `name` is empty.
  Result<std::vector<StatisticsSnapshot>> Statistics(std::string_view name,
                                                     std::string_view version,
                                                     const api::CallerRef& caller) const;

  // Load and unload a model; as api::ModelControl. Without a control, and for the
  // test models, the error is insufficient_scope: no key has the right to change them.
  void Load(const std::string& name, api::ModelControl::Done done) const;
  void Unload(const std::string& name, api::ModelControl::Done done) const;

  // Finds the model, checks the request and starts it; counts the outcome. An expired deadline is
  // deadline_exceeded before anything else is checked.
  Result<std::unique_ptr<Execution>> Infer(InferRequest request, std::shared_ptr<Waker> waker);

 private:
  struct Entry;
  class Counted;
  struct Kept {
    std::shared_ptr<kserve::Statistics> statistics;
    bool is_adapter = false;  // LoRA
  };
  // Statistics of models that are gone, kept for their return.
  static constexpr size_t kMaxGone = 256;

  Result<Entry> FindEntry(std::string_view name, std::string_view version,
                          const api::CallerRef& caller) const;
  std::vector<Entry> Entries(const api::CallerRef& caller,
                             std::span<const api::ModelInfo> infos) const;
  // Returns nullopt for a model whose kind is not known yet, or that KServe has no form for.
  std::optional<Entry> EntryOf(const api::ModelInfo& info,
                               std::span<const api::ModelInfo> infos) const;
  std::shared_ptr<kserve::Statistics> StatisticsOf(const api::ModelInfo& info,
                                                   std::span<const api::ModelInfo> infos) const
      EXCLUDES(mutex_);
  void ForgetAdapters(std::span<const api::ModelInfo> infos) const EXCLUDES(mutex_);

  const RepositoryOptions options_;
  const Dependencies deps_;
  std::vector<Entry> test_models_;  // constant after construction
  mutable Mutex mutex_;
  mutable std::map<std::string, Kept, std::less<>> statistics_ GUARDED_BY(mutex_);  // by id
};

}  // namespace tutti::kserve
