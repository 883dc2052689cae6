// Gateway: the models that it serves and lists, and requests that wait for one.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "api/models.h"
#include "api/validate.h"
#include "base/clock.h"
#include "base/quote.h"
#include "gateway/gateway.h"

namespace tutti::gateway {
namespace {

// When the model is unloaded unless it is used before; 0: never.
int64_t ExpiryOf(const ServedModel& model, TimePoint now) {
  const Duration keep(model.use->keep_alive_ns.load(std::memory_order_relaxed));
  if (keep == api::kForever) return 0;
  const TimePoint last =
      model.unfinished() > 0 ? now : TimePoint(Duration(model.use->last_ns.load()));
  // Rounded once, so that the time stays the same between uses of the model.
  return (UnixMillis() +
          std::chrono::duration_cast<std::chrono::milliseconds>(last - now + keep).count()) /
         1000;
}

}  // namespace

Status AdapterExists(const std::string& name) {
  return Status(StatusCode::kAlreadyExists, "adapter_exists",
                fmt::format("{} is the name of a model or adapter already; unload it or choose "
                            "another name",
                            Quote(name)));
}

void Gateway::Expect(std::vector<std::string> names) {
  const MutexLock lock(mutex_);
  expected_ = std::move(names);
  snapshot_.reset();
}

bool Gateway::AwaitsModels() const {
  const MutexLock lock(mutex_);
  return !expected_.empty();
}

void Gateway::UseSource(ModelSource* source, const WaitLimits& limits) {
  const MutexLock lock(mutex_);
  waiting_.SetLimits(limits);
  source_ = source;
}

void Gateway::List(std::vector<api::ModelInfo> listed) {
  const MutexLock lock(mutex_);
  listed_ = std::move(listed);
  snapshot_.reset();
}

void Gateway::AddModel(std::shared_ptr<const ServedModel> model) {
  NoteUse(*model, std::nullopt);
  std::vector<WaitingRequests::Entry> resumed;
  {
    const MutexLock lock(mutex_);
    std::erase(expected_, model->info.id);
    models_.push_back(model);
    snapshot_.reset();
    resumed = waiting_.Take(model->info.id);
  }
  for (WaitingRequests::Entry& entry : resumed)
    pool_.Post([resume = std::move(entry.resume), model] { resume(model); });
}

void Gateway::RemoveModel(const ServedModel& model) {
  std::vector<std::shared_ptr<const ServedModel>> removed;
  {
    const MutexLock lock(mutex_);
    std::erase_if(models_, [&](const auto& served) {
      const bool its_adapter = served->adapter != nullptr && served->engine == model.engine;
      if (served.get() != &model && !its_adapter) return false;
      removed.push_back(served);
      return true;
    });
    snapshot_.reset();
  }
  for (const auto& served : removed) constraints_.Forget(*served);
}

void Gateway::FailWaiting(const std::string& model, const Status& why) {
  std::vector<WaitingRequests::Entry> ended;
  {
    const MutexLock lock(mutex_);
    ended = waiting_.Take(model);
    for (const api::ModelInfo& listed : listed_) {
      if (listed.parent != model) continue;  // an adapter comes with its model
      for (WaitingRequests::Entry& entry : waiting_.Take(listed.id))
        ended.push_back(std::move(entry));
    }
  }
  for (const WaitingRequests::Entry& entry : ended) entry.resume(why);
}

void Gateway::EndWaiting() {
  std::vector<WaitingRequests::Ended> ended;
  {
    const MutexLock lock(mutex_);
    if (waiting_.size() == 0) return;
    ended = waiting_.TakeEnded(clock_.Now());
  }
  for (const auto& [entry, why] : ended) entry.resume(why);
}

size_t Gateway::waiting() const {
  const MutexLock lock(mutex_);
  return waiting_.size();
}

void Gateway::NoteUse(const ServedModel& model, std::optional<Duration> keep_alive) const {
  if (source_ == nullptr) return;  // nobody unloads it
  ModelUse& use = *model.use;
  use.last_ns.store(clock_.Now().time_since_epoch().count(), std::memory_order_relaxed);
  use.keep_alive_ns.store(keep_alive.has_value() ? keep_alive->count() : use.default_keep_alive_ns,
                          std::memory_order_relaxed);
}

Gateway::Lookup Gateway::LookLocked(const std::string& name) const {
  // Until a model is there, nothing can be said of any name.
  const bool none_listed = listed_.empty() && (source_ == nullptr || !expected_.empty());
  const bool default_awaited = name.empty() && !expected_.empty();
  if (models_.empty() && (none_listed || default_awaited))
    return {.why = Unavailable("model_loading", "the model is still being loaded")};
  std::string wanted = name;
  if (name.empty()) {
    const api::ModelList models = ModelsLocked();
    const api::ModelInfo* const model = api::DefaultGenerator(models);
    if (model == nullptr) return {.why = api::ModelNotFound(name)};
    wanted = model->id;
  }
  // Further names of listed models come and go while these are loaded.
  if (const api::ModelInfo* const listed = api::FindModel(listed_, wanted)) wanted = listed->id;
  for (const auto& model : models_) {
    if (model->Answers(wanted)) return {.model = model};
  }
  if (std::find(expected_.begin(), expected_.end(), wanted) != expected_.end())
    return {.why = Unavailable("model_loading", "model " + wanted + " is still being loaded")};
  if (const api::ModelInfo* const listed = api::FindModel(listed_, wanted))
    return {.listed = listed->id};
  return {.why = api::ModelNotFound(name)};
}

Gateway::Lookup Gateway::Look(const std::string& name) const {
  const MutexLock lock(mutex_);
  return LookLocked(name);
}

Status Gateway::AddAdapter(std::shared_ptr<const ServedModel> model, bool replaces) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const ServedModel> replaced, PutAdapter(model, replaces));
  if (replaced != nullptr) constraints_.Forget(*replaced);
  // Not under the mutex: they are requests.
  model->engine->RestorePins(model->adapter, model->info.id);
  std::vector<WaitingRequests::Entry> resumed;
  {
    const MutexLock lock(mutex_);
    resumed = waiting_.Take(model->info.id);
  }
  for (WaitingRequests::Entry& entry : resumed)
    pool_.Post([resume = std::move(entry.resume), model] { resume(model); });
  return OkStatus();
}

Result<std::shared_ptr<const ServedModel>> Gateway::PutAdapter(
    const std::shared_ptr<const ServedModel>& model, bool replaces) {
  const MutexLock lock(mutex_);
  // Another load of the base has another engine.
  const auto is_base = [&](const auto& served) {
    return served->info.id == model->info.parent && served->engine == model->engine;
  };
  if (std::none_of(models_.begin(), models_.end(), is_base)) {
    const std::string& base = model->info.parent;
    if (api::FindModel(listed_, base) == nullptr) return api::ModelNotFound(base);
    return Unavailable("model_loading", "model " + base + " is being unloaded; retry later");
  }
  const api::ModelInfo* const listed = api::FindModel(listed_, model->info.id);
  if (listed != nullptr && listed->id != model->info.id) return AdapterExists(model->info.id);
  for (auto& served : models_) {
    if (!served->Answers(model->info.id)) continue;
    if (!replaces || served->adapter == nullptr) return AdapterExists(model->info.id);
    snapshot_.reset();
    return std::exchange(served, model);
  }
  models_.push_back(model);
  snapshot_.reset();
  return std::shared_ptr<const ServedModel>();
}

Status Gateway::RemoveAdapter(const std::string& name) {
  std::shared_ptr<const ServedModel> removed;
  {
    const MutexLock lock(mutex_);
    const auto found = std::find_if(models_.begin(), models_.end(), [&](const auto& served) {
      return served->adapter != nullptr && served->info.id == name;
    });
    if (found == models_.end()) return api::ModelNotFound(name);
    removed = std::move(*found);
    models_.erase(found);
    snapshot_.reset();
  }
  constraints_.Forget(*removed);
  return OkStatus();
}

Result<std::shared_ptr<const ServedModel>> Gateway::Find(const std::string& name) const {
  Lookup found = Look(name);
  if (found.model != nullptr) return std::move(found.model);
  if (!found.listed.empty())
    return Unavailable("model_loading", "model " + found.listed + " is not loaded");
  return std::move(found.why);
}

Status Gateway::WaitFor(WaitingRequests::Entry entry) {
  entry.since = clock_.Now();
  const std::string model = entry.model;
  {
    const MutexLock lock(mutex_);
    // Under the lock, so that AddModel() finds the entry if it comes later.
    if (Lookup found = LookLocked(model); found.model != nullptr) {
      pool_.Post(
          [resume = std::move(entry.resume), served = std::move(found.model)] { resume(served); });
      return OkStatus();
    }
    RETURN_IF_ERROR(waiting_.Add(std::move(entry)));
  }
  const Status wanted = source_->Want(model);
  if (!wanted.ok()) FailWaiting(model, wanted);
  return OkStatus();
}

Result<std::shared_ptr<const ServedModel>> Gateway::FindWithin(const std::string& name,
                                                               Duration patience) {
  Lookup found = Look(name);
  if (found.model != nullptr) NoteUse(*found.model, std::nullopt);
  if (found.model != nullptr) return std::move(found.model);
  if (found.listed.empty()) return std::move(found.why);
  struct Answer {
    Mutex mutex;
    CondVar changed;
    std::optional<WaitingRequests::Found> found;
  };
  const auto answer = std::make_shared<Answer>();
  RETURN_IF_ERROR(WaitFor({.model = found.listed,
                           .deadline = clock_.Now() + patience,
                           .resume = [answer](WaitingRequests::Found model) {
                             const MutexLock lock(answer->mutex);
                             answer->found = std::move(model);
                             answer->changed.NotifyAll();
                           }}));
  const MutexLock lock(answer->mutex);
  while (!answer->found.has_value()) {
    if (!answer->changed.WaitFor(answer->mutex, patience))
      return Unavailable("model_loading", "model " + found.listed + " is still being loaded");
  }
  return *std::move(answer->found);
}

api::ModelList Gateway::ModelsLocked() const {
  const auto is_current = [&](const auto& model) {
    return ExpiryOf(*model.first, clock_.Now()) == model.second;
  };
  if (!snapshot_.has_value() ||
      !std::all_of(snapshot_->expiries.begin(), snapshot_->expiries.end(), is_current))
    snapshot_ = MakeSnapshot();
  return snapshot_->models;
}

Gateway::Snapshot Gateway::MakeSnapshot() const {
  std::vector<std::pair<const ServedModel*, int64_t>> expiries;
  std::vector<api::ModelInfo> infos, unloaded;
  // Thousands of models may be listed.
  std::unordered_map<std::string_view, const ServedModel*> served;
  for (const auto& model : models_) served.emplace(model->info.id, model.get());
  std::unordered_set<std::string_view> listed_names;
  for (const api::ModelInfo& listed : listed_) {
    listed_names.insert(listed.id);
    listed_names.insert(listed.aliases.begin(), listed.aliases.end());
  }
  const auto add_loaded = [&](const ServedModel& model, const api::ModelInfo* listed) {
    infos.push_back(model.info);
    if (listed == nullptr) return;
    infos.back().aliases = listed->aliases;
    api::ModelStatus& status = infos.back().status;
    const int64_t bytes = status.memory_bytes;
    status = listed->status;
    status.memory_bytes = bytes;
    // The list may be older.
    status.state = api::ModelState::kLoaded;
    if (status.pinned) return;
    status.expires_unix_s = ExpiryOf(model, clock_.Now());
    expiries.emplace_back(&model, status.expires_unix_s);
  };
  for (const auto& model : models_) {
    const bool is_listed = listed_names.contains(model->info.id);
    if (!is_listed && model->adapter == nullptr) add_loaded(*model, nullptr);
  }
  for (const api::ModelInfo& listed : listed_) {
    const auto found = served.find(listed.id);
    if (found != served.end() && found->second->adapter != nullptr) {
      continue;  // the list is older; adapters follow below
    } else if (found != served.end()) {
      add_loaded(*found->second, &listed);
    } else if (std::find(expected_.begin(), expected_.end(), listed.id) == expected_.end()) {
      unloaded.push_back(listed);
    }
  }
  // No request without a model's name gets an adapter.
  for (const auto& model : models_) {
    if (model->adapter != nullptr) add_loaded(*model, nullptr);
  }
  infos.insert(infos.end(), std::make_move_iterator(unloaded.begin()),
               std::make_move_iterator(unloaded.end()));
  return {.models = std::move(infos), .expiries = std::move(expiries)};
}

std::vector<std::shared_ptr<const ServedModel>> Gateway::ServedBases() const {
  std::vector<std::shared_ptr<const ServedModel>> bases;
  const MutexLock lock(mutex_);
  for (const auto& model : models_) {
    if (model->adapter == nullptr) bases.push_back(model);
  }
  return bases;
}

void Gateway::ListWaiting(api::LiveState* out) const {
  const TimePoint now = clock_.Now();
  const MutexLock lock(mutex_);
  waiting_.List(now, out);
}

api::ModelList Gateway::Models() const {
  const MutexLock lock(mutex_);
  return ModelsLocked();
}

api::LoadSnapshot Gateway::Load() const {
  const MutexLock lock(mutex_);
  api::LoadSnapshot sum;
  for (const auto& model : models_) {
    if (model->adapter != nullptr) continue;  // its base's engine
    if (model->engine != nullptr) {
      const api::LoadSnapshot load = model->engine->Load();
      sum.running += load.running;
      sum.waiting += load.waiting;
      sum.max_num_seqs += load.max_num_seqs;
      sum.kv_blocks_used += load.kv_blocks_used;
      sum.kv_blocks_total += load.kv_blocks_total;
      sum.level = std::max(sum.level, load.level);
    }
    if (model->encoder != nullptr) {
      const engine::EncoderStats stats = model->encoder->engine->stats();
      sum.waiting += stats.requests;
      sum.level = std::max(sum.level, stats.level);
    }
  }
  return sum;
}

Gateway::AdaptersInUse Gateway::UsedAdapters() const {
  AdaptersInUse used;
  const MutexLock lock(mutex_);
  for (const auto& model : models_) {
    if (model->adapter == nullptr) continue;
    if (model->adapter->use().running.load() > 0) used.running.push_back(model->info.id);
    if (model->adapter->use().waiting.load() > 0) used.waiting.push_back(model->info.id);
  }
  return used;
}

Result<api::ModelStatistics> Gateway::Statistics(const std::string& name) const {
  ASSIGN_OR_RETURN(const std::shared_ptr<const ServedModel> model, Find(name));
  api::ModelStatistics sum;
  if (model->engine != nullptr) {
    const engine::EngineStats stats = model->engine->stats();
    sum.executions += stats.steps;
    sum.items += stats.output_tokens;
    sum.busy += stats.busy;
  }
  if (model->encoder != nullptr) {
    const engine::EncoderStats stats = model->encoder->engine->stats();
    sum.executions += stats.batches;
    sum.items += stats.items;
    sum.busy += stats.busy;
  }
  return sum;
}

}  // namespace tutti::gateway
