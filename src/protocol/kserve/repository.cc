#include "protocol/kserve/repository.h"

#include <algorithm>
#include <span>
#include <utility>

#include "api/models.h"
#include "api/validate.h"
#include "base/clock.h"
#include "protocol/kserve/adapters.h"
#include "protocol/kserve/request.h"
#include "protocol/kserve/test_models.h"

namespace tutti::kserve {
namespace {

Status LoadRefused(const char* what) {
  return Status(StatusCode::kPermissionDenied, "insufficient_scope",
                std::string("failed to ") + what +
                    " the model: models are loaded when the server is started");
}

// Whether a model of the inference API is loaded; the test models always are.
Status LoadedStatus(const std::string& name, std::span<const api::ModelInfo> infos) {
  if (IsTestModel(name)) return OkStatus();
  const api::ModelInfo* const info = api::FindModel(infos, name);
  if (info == nullptr) return api::ModelNotFound(name);
  if (info->status.state == api::ModelState::kLoaded) return OkStatus();
  return Unavailable("model_loading", std::string(api::ModelStateName(info->status.state)));
}

}  // namespace

void Statistics::Success(Duration took, const Spent& spent, int64_t unix_ms) {
  const MutexLock lock(mutex_);
  sum_.last_inference_ms = unix_ms;
  sum_.inference_count += spent.items;
  sum_.execution_count += spent.executions;
  sum_.success.Add(took);
  sum_.queue.Add(spent.queue);
  sum_.input.Add(spent.input);
  sum_.infer.Add(spent.infer);
  sum_.output.Add(spent.output);
  // Executions that the model counts itself are shared with other requests: their batches are not
  // this request's.
  if (spent.executions == 0) return;
  const auto known = batches_.find(spent.items);
  if (known == batches_.end() && batches_.size() >= kMaxBatches) return;
  BatchStat& batch = batches_[spent.items];
  batch.batch_size = spent.items;
  batch.input.Add(spent.input, spent.executions);
  batch.infer.Add(spent.infer, spent.executions);
  batch.output.Add(spent.output, spent.executions);
}

void Statistics::Fail(Duration took) {
  const MutexLock lock(mutex_);
  sum_.fail.Add(took);
}

StatisticsSnapshot Statistics::Read() const {
  const MutexLock lock(mutex_);
  StatisticsSnapshot snapshot = sum_;
  for (const auto& [size, batch] : batches_) snapshot.batches.push_back(batch);
  return snapshot;
}

struct Repository::Entry {
  std::shared_ptr<Model> model;
  std::vector<std::string> aliases;
  bool is_adapter = false;  // it changes another model, and comes and goes by its own name
  kserve::Statistics statistics;

  bool Answers(std::string_view name) const {
    return model->config().name == name ||
           std::find(aliases.begin(), aliases.end(), name) != aliases.end();
  }
  StatisticsSnapshot Read() const {
    StatisticsSnapshot snapshot = statistics.Read();
    snapshot.name = model->config().name;
    snapshot.version = kModelVersion;
    if (const auto executed = model->Executed()) {
      snapshot.execution_count = executed->first;
      // A batch is formed of requests through all servers, so that its items are counted there too.
      if (!model->config().decoupled) snapshot.inference_count = executed->second;
    }
    return snapshot;
  }
};

// Counts the result of an execution. An abandoned one counts as failed.
class Repository::Counted final : public Execution {
 public:
  Counted(std::unique_ptr<Execution> inner, std::shared_ptr<Entry> entry, const Clock& clock)
      : inner_(std::move(inner)), entry_(std::move(entry)), clock_(clock), started_(clock.Now()) {}
  ~Counted() override {
    if (!counted_) entry_->statistics.Fail(clock_.Now() - started_);
  }

  Result<std::optional<InferResponse>> Next() override {
    Result<std::optional<InferResponse>> next = inner_->Next();
    if (!next.ok()) {
      entry_->statistics.Fail(clock_.Now() - started_);
      counted_ = true;
    } else if (next->has_value() && (*next)->final) {
      entry_->statistics.Success(clock_.Now() - started_, (*next)->spent, UnixMillis());
      counted_ = true;
    }
    return next;
  }
  TimePoint due() const override { return inner_->due(); }
  bool prepared() const override { return inner_->prepared(); }
  std::vector<std::string> unread() const override { return inner_->unread(); }

 private:
  const std::unique_ptr<Execution> inner_;
  const std::shared_ptr<Entry> entry_;
  const Clock& clock_;
  const TimePoint started_;
  bool counted_ = false;
};

Repository::Repository(RepositoryOptions options, Dependencies dependencies)
    : options_(std::move(options)), deps_(dependencies) {
  if (!options_.test_models) return;
  for (std::shared_ptr<Model>& model : MakeTestModels(*deps_.clock)) {
    auto entry = std::make_shared<Entry>();
    entry->model = std::move(model);
    entries_.push_back(std::move(entry));
  }
}

Repository::~Repository() = default;

ServerMetadata Repository::metadata() const {
  return {options_.server_name,
          options_.server_version,
          {"binary_tensor_data", "statistics", "model_configuration", "model_repository",
           "parameters", "schedule_policy", "sequence"}};
}

Status Repository::live() const { return deps_.health->live(); }
Status Repository::ready() const { return deps_.health->ready(); }

void Repository::Refresh() const {
  const std::vector<api::ModelInfo> infos = deps_.inference->Models();
  const MutexLock lock(mutex_);
  // Models may be listed again, with their statistics. An adapter that was unloaded is gone, and
  // its name may become another's.
  std::erase_if(entries_, [&](const std::shared_ptr<Entry>& entry) {
    return entry->is_adapter && api::FindModel(infos, entry->model->config().name) == nullptr;
  });
  for (const api::ModelInfo& info : infos) {
    // The files of a listed model may not have been read yet.
    if (info.architecture.empty() && info.status.state != api::ModelState::kLoaded) continue;
    const bool known = std::any_of(entries_.begin(), entries_.end(), [&](const auto& entry) {
      return entry->model->config().name == info.id;
    });
    if (known) continue;
    std::shared_ptr<Model> model = MakeAdapter(info, *deps_.inference, *deps_.clock);
    if (model == nullptr) continue;
    auto entry = std::make_shared<Entry>();
    entry->model = std::move(model);
    entry->aliases = info.aliases;
    entry->is_adapter = !info.parent.empty();
    entries_.push_back(std::move(entry));
  }
}

Result<std::shared_ptr<Repository::Entry>> Repository::FindEntry(std::string_view name,
                                                                 std::string_view version) const {
  const auto look = [&]() -> std::shared_ptr<Entry> {
    const MutexLock lock(mutex_);
    for (const std::shared_ptr<Entry>& entry : entries_) {
      if (entry->Answers(name)) return entry;
    }
    return nullptr;
  };
  std::shared_ptr<Entry> found = look();
  if (found == nullptr || found->is_adapter) {
    Refresh();
    found = look();
  }
  if (found == nullptr) {
    // While models are loading, an unknown name may become known.
    if (deps_.inference->Models().empty()) RETURN_IF_ERROR(deps_.health->started());
    return UnknownModel(name);
  }
  RETURN_IF_ERROR(CheckVersion(name, version));
  return found;
}

Result<std::shared_ptr<Model>> Repository::Find(std::string_view name,
                                                std::string_view version) const {
  ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, FindEntry(name, version));
  return entry->model;
}

Status Repository::ModelReady(std::string_view name, std::string_view version) const {
  ASSIGN_OR_RETURN(const std::shared_ptr<Model> model, Find(name, version));
  RETURN_IF_ERROR(deps_.health->live());
  RETURN_IF_ERROR(LoadedStatus(model->config().name, deps_.inference->Models()));
  return model->ready();
}

std::vector<IndexEntry> Repository::Index(bool ready_only) const {
  Refresh();
  std::vector<std::shared_ptr<Entry>> entries;
  {
    const MutexLock lock(mutex_);
    entries = entries_;
  }
  const std::vector<api::ModelInfo> infos = deps_.inference->Models();
  std::vector<IndexEntry> index;
  for (const std::shared_ptr<Entry>& entry : entries) {
    Status ready = LoadedStatus(entry->model->config().name, infos);
    if (ready.ok()) ready = entry->model->ready();
    if (ready_only && !ready.ok()) continue;
    index.push_back({entry->model->config().name, std::string(kModelVersion), ready.ok(),
                     ready.ok() ? "" : ready.message()});
  }
  return index;
}

Result<std::vector<StatisticsSnapshot>> Repository::Statistics(std::string_view name,
                                                               std::string_view version) const {
  std::vector<StatisticsSnapshot> all;
  if (!name.empty()) {
    ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, FindEntry(name, version));
    all.push_back(entry->Read());
    return all;
  }
  Refresh();
  std::vector<std::shared_ptr<Entry>> entries;
  {
    const MutexLock lock(mutex_);
    entries = entries_;
  }
  for (const std::shared_ptr<Entry>& entry : entries) all.push_back(entry->Read());
  return all;
}

void Repository::Load(const std::string& name, api::ModelControl::Done done) const {
  if (deps_.control == nullptr || IsTestModel(name)) return done(LoadRefused("load"));
  deps_.control->Load(name, std::move(done));
}

void Repository::Unload(const std::string& name, api::ModelControl::Done done) const {
  if (deps_.control == nullptr || IsTestModel(name)) return done(LoadRefused("unload"));
  deps_.control->Unload(name, std::move(done));
}

Result<std::unique_ptr<Execution>> Repository::Infer(InferRequest request,
                                                     std::shared_ptr<Waker> waker) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, FindEntry(request.model, request.version));
  const TimePoint now = deps_.clock->Now();
  const auto fail = [&](Status status) {
    entry->statistics.Fail(deps_.clock->Now() - now);
    return status;
  };
  if (now >= request.deadline) {
    return fail(Status(StatusCode::kDeadlineExceeded, "deadline_exceeded",
                       "Request timeout expired before the request was looked at"));
  }
  if (Status status = CheckRequest(entry->model->config(), request); !status.ok())
    return fail(std::move(status));
  Result<std::unique_ptr<Execution>> started =
      entry->model->Start(std::move(request), std::move(waker));
  if (!started.ok()) return fail(std::move(started).status());
  return std::unique_ptr<Execution>(
      std::make_unique<Counted>(*std::move(started), entry, *deps_.clock));
}

}  // namespace tutti::kserve
