#include "protocol/kserve/repository.h"

#include <optional>
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

bool MayUse(const api::CallerRef& caller, const api::ModelInfo& model) {
  return caller == nullptr || api::MayUse(*caller, model);
}
bool MayUseName(const api::CallerRef& caller, const std::string& name) {
  api::ModelInfo model;
  model.id = name;
  return MayUse(caller, model);
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

// A model as one request sees it: what the inference API lists at that moment. It is not kept, so
// that a name whose file, kind or alias changes is never answered from what it was before.
struct Repository::Entry {
  std::shared_ptr<Model> model;
  std::shared_ptr<kserve::Statistics> statistics;

  StatisticsSnapshot Read() const {
    StatisticsSnapshot snapshot = statistics->Read();
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
  Counted(std::unique_ptr<Execution> inner, Entry entry, const Clock& clock)
      : entry_(std::move(entry)), inner_(std::move(inner)), clock_(clock), started_(clock.Now()) {}
  ~Counted() override {
    if (!counted_) entry_.statistics->Fail(clock_.Now() - started_);
  }

  Result<std::optional<InferResponse>> Next() override {
    Result<std::optional<InferResponse>> next = inner_->Next();
    if (!next.ok()) {
      entry_.statistics->Fail(clock_.Now() - started_);
      counted_ = true;
    } else if (next->has_value() && (*next)->final) {
      entry_.statistics->Success(clock_.Now() - started_, (*next)->spent, UnixMillis());
      counted_ = true;
    }
    return next;
  }
  TimePoint due() const override { return inner_->due(); }
  bool prepared() const override { return inner_->prepared(); }
  std::vector<std::string> unread() const override { return inner_->unread(); }

 private:
  const Entry entry_;  // outlives the execution, which refers to its model
  const std::unique_ptr<Execution> inner_;
  const Clock& clock_;
  const TimePoint started_;
  bool counted_ = false;
};

Repository::Repository(RepositoryOptions options, Dependencies dependencies)
    : options_(std::move(options)), deps_(dependencies) {
  if (!options_.test_models) return;
  for (std::shared_ptr<Model>& model : MakeTestModels(*deps_.clock))
    test_models_.push_back({std::move(model), std::make_shared<kserve::Statistics>()});
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

std::shared_ptr<Statistics> Repository::StatisticsOf(const api::ModelInfo& info,
                                                     std::span<const api::ModelInfo> infos) const {
  const MutexLock lock(mutex_);
  if (const auto known = statistics_.find(info.id); known != statistics_.end())
    return known->second.statistics;
  // Names that come and go must not fill the memory.
  if (statistics_.size() >= infos.size() + kMaxGone) {
    std::erase_if(statistics_,
                  [&](const auto& one) { return api::FindModel(infos, one.first) == nullptr; });
  }
  const Kept kept{std::make_shared<kserve::Statistics>(), !info.parent.empty()};
  return statistics_.emplace(info.id, kept).first->second.statistics;
}

// Models may be listed again, with their statistics. The name of a LoRA adapter that was unloaded
// may become another's.
void Repository::ForgetAdapters(std::span<const api::ModelInfo> infos) const {
  const MutexLock lock(mutex_);
  std::erase_if(statistics_, [&](const auto& one) {
    return one.second.is_adapter && api::FindModel(infos, one.first) == nullptr;
  });
}

std::optional<Repository::Entry> Repository::EntryOf(const api::ModelInfo& info,
                                                     std::span<const api::ModelInfo> infos) const {
  // The files of a listed model may not have been read yet.
  if (info.architecture.empty() && info.status.state != api::ModelState::kLoaded)
    return std::nullopt;
  std::shared_ptr<Model> model = MakeAdapter(info, *deps_.inference, *deps_.clock);
  if (model == nullptr) return std::nullopt;
  return Entry{std::move(model), StatisticsOf(info, infos)};
}

std::vector<Repository::Entry> Repository::Entries(const api::CallerRef& caller,
                                                   std::span<const api::ModelInfo> infos) const {
  ForgetAdapters(infos);
  std::vector<Entry> entries;
  for (const Entry& entry : test_models_) {
    if (MayUseName(caller, entry.model->config().name)) entries.push_back(entry);
  }
  for (const api::ModelInfo& info : infos) {
    if (!MayUse(caller, info)) continue;
    if (std::optional<Entry> entry = EntryOf(info, infos)) entries.push_back(*std::move(entry));
  }
  return entries;
}

Result<Repository::Entry> Repository::FindEntry(std::string_view name, std::string_view version,
                                                const api::CallerRef& caller) const {
  for (const Entry& entry : test_models_) {
    if (entry.model->config().name != name) continue;
    if (!MayUseName(caller, entry.model->config().name)) return UnknownModel(name);
    RETURN_IF_ERROR(CheckVersion(name, version));
    return entry;
  }
  const api::ModelList infos = deps_.inference->Models();
  const api::ModelInfo* const info = api::FindModel(infos, name);
  if (info == nullptr) {
    ForgetAdapters(infos);
    // While models are loading, an unknown name may become known.
    if (infos.empty()) RETURN_IF_ERROR(deps_.health->started());
    const std::string wanted(name);
    if (!wanted.empty() && MayUseName(caller, wanted) &&
        deps_.inference->Statistics(wanted).status().reason() == "model_loading")
      return Unavailable("model_loading", "model " + Quoted(name) + " is still being loaded");
    return UnknownModel(name);
  }
  if (!MayUse(caller, *info)) return UnknownModel(name);
  std::optional<Entry> entry = EntryOf(*info, infos);
  if (!entry.has_value()) {
    if (!info->architecture.empty()) return UnknownModel(name);  // it has no form in KServe
    if (info->status.state == api::ModelState::kFailed) {
      return Unavailable("model_load_failed",
                         "the files of model " + Quoted(name) + " could not be read");
    }
    return Unavailable("model_loading",
                       "the files of model " + Quoted(name) + " are still being read; try again");
  }
  RETURN_IF_ERROR(CheckVersion(name, version));
  return *std::move(entry);
}

Result<std::shared_ptr<Model>> Repository::Find(std::string_view name, std::string_view version,
                                                const api::CallerRef& caller) const {
  ASSIGN_OR_RETURN(Entry entry, FindEntry(name, version, caller));
  return std::move(entry.model);
}

Status Repository::ModelReady(std::string_view name, std::string_view version,
                              const api::CallerRef& caller) const {
  ASSIGN_OR_RETURN(const std::shared_ptr<Model> model, Find(name, version, caller));
  RETURN_IF_ERROR(deps_.health->live());
  RETURN_IF_ERROR(LoadedStatus(model->config().name, deps_.inference->Models()));
  return model->ready();
}

std::vector<IndexEntry> Repository::Index(bool ready_only, const api::CallerRef& caller) const {
  const api::ModelList infos = deps_.inference->Models();
  std::vector<IndexEntry> index;
  for (const Entry& entry : Entries(caller, infos)) {
    Status ready = LoadedStatus(entry.model->config().name, infos);
    if (ready.ok()) ready = entry.model->ready();
    if (ready_only && !ready.ok()) continue;
    index.push_back({entry.model->config().name, std::string(kModelVersion), ready.ok(),
                     ready.ok() ? "" : ready.message()});
  }
  return index;
}

Result<std::vector<StatisticsSnapshot>> Repository::Statistics(std::string_view name,
                                                               std::string_view version,
                                                               const api::CallerRef& caller) const {
  std::vector<StatisticsSnapshot> all;
  if (!name.empty()) {
    ASSIGN_OR_RETURN(const Entry entry, FindEntry(name, version, caller));
    all.push_back(entry.Read());
    return all;
  }
  for (const Entry& entry : Entries(caller, deps_.inference->Models())) all.push_back(entry.Read());
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
  ASSIGN_OR_RETURN(const Entry entry, FindEntry(request.model, request.version, request.caller));
  const TimePoint now = deps_.clock->Now();
  const auto fail = [&](Status status) {
    entry.statistics->Fail(deps_.clock->Now() - now);
    return status;
  };
  if (now >= request.deadline) {
    return fail(Status(StatusCode::kDeadlineExceeded, "deadline_exceeded",
                       "Request timeout expired before the request was looked at"));
  }
  if (Status status = CheckRequest(entry.model->config(), request); !status.ok())
    return fail(std::move(status));
  Result<std::unique_ptr<Execution>> started =
      entry.model->Start(std::move(request), std::move(waker));
  if (!started.ok()) return fail(std::move(started).status());
  return std::unique_ptr<Execution>(
      std::make_unique<Counted>(*std::move(started), entry, *deps_.clock));
}

}  // namespace tutti::kserve
