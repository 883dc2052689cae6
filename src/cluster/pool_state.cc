// WorkerPool: its state, that of its workers, and its end.
#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "api/models.h"
#include "api/validate.h"
#include "cluster/inference_codec.h"
#include "cluster/work.h"

namespace tutti::cluster {
namespace {

// The lowest of a model at several workers is shown: the best state, then one whose files
// have been read.
int OrderOf(const api::ModelInfo& model) {
  const auto state = [&] {
    switch (model.status.state) {
      case api::ModelState::kLoaded:
        return 0;
      case api::ModelState::kLoading:
        return 1;
      case api::ModelState::kUnloaded:
        return 2;
      case api::ModelState::kUnloading:
        return 3;
      case api::ModelState::kFailed:
        break;
    }
    return 4;
  };
  return 2 * state() + (model.digest.empty() ? 1 : 0);
}

}  // namespace

void WorkerPool::BeginDrain() { draining_.store(true); }

bool WorkerPool::Drain(Duration limit) {
  BeginDrain();
  EndControl();
  const TimePoint deadline = clock_.Now() + limit;
  bool clean = true;
  std::vector<std::shared_ptr<Connection>> connections;
  {
    const MutexLock lock(mutex_);
    while (works_ > 0 && clock_.Now() < deadline)
      changed_.WaitFor(mutex_, std::chrono::milliseconds(50));
    clean = works_ == 0;
    closed_.store(true);
    for (const WorkerRef& worker : workers_) connections.push_back(worker->connection);
  }
  for (const auto& connection : connections) connection->Close();
  std::deque<WorkRef> waiting;
  {
    const MutexLock lock(mutex_);
    waiting.swap(waiting_);
  }
  for (const WorkRef& work : waiting) {
    work->Finish(Draining());
    if (work->waker != nullptr) work->waker->Wake();
    const MutexLock lock(mutex_);
    Forget(work);
  }
  return clean;
}

Status WorkerPool::started() const {
  const MutexLock lock(mutex_);
  if (!any_came_) return Unavailable("model_loading", "no worker has brought a model yet");
  return OkStatus();
}

Status WorkerPool::ready() const {
  if (draining_.load()) return Draining();
  const MutexLock lock(mutex_);
  Status status = AbsentLocked("");
  for (const WorkerRef& worker : workers_) {
    if (worker->draining) continue;
    status = FromWire(worker->beat.live());
    if (status.ok()) break;
  }
  return status;
}

WorkerPool::Figures WorkerPool::figures() const {
  const MutexLock lock(mutex_);
  Figures figures = figures_;
  figures.workers = static_cast<int>(workers_.size());
  figures.draining = static_cast<int>(std::count_if(
      workers_.begin(), workers_.end(), [](const WorkerRef& worker) { return worker->draining; }));
  for (const api::ModelInfo& model : LiveModels()) {
    if (model.parent.empty()) ++figures.models[static_cast<size_t>(model.status.state)];
  }
  for (const WorkerRef& worker : workers_) {
    figures.memory_bytes = SumOf(figures.memory_bytes, worker->Memory().used);
    figures.memory_budget_bytes = SumOf(figures.memory_budget_bytes, worker->memory_budget);
  }
  return figures;
}

void WorkerPool::ListWorkers(api::LiveState* state) const {
  const TimePoint now = clock_.Now();
  const MutexLock lock(mutex_);
  const size_t listed = std::min(workers_.size(), api::LiveState::kMaxWorkers);
  for (size_t i = 0; i < listed; ++i) {
    const Worker& worker = *workers_[i];
    const api::LoadSnapshot load = FromWire(worker.beat);
    api::LiveWorker& row = state->workers.emplace_back();
    row.name = worker.name;
    row.draining = worker.draining;
    for (const api::ModelInfo& model : worker.models) {
      if (model.status.state != api::ModelState::kLoaded) continue;
      if (row.models.size() < api::LiveWorker::kMaxModels) {
        row.models.push_back(model.id);
      } else {
        ++row.models_left_out;
      }
    }
    row.in_flight = static_cast<int>(worker.works.size() + worker.questions.size());
    row.running = load.running;
    row.waiting = load.waiting;
    row.max_num_seqs = load.max_num_seqs;
    row.silent = now - worker.heard;
  }
  state->workers_left_out = static_cast<int>(workers_.size() - listed);
}

// Each model as the worker has it that can serve it soonest: loaded ones first, as a gateway lists
// them, so that requests without a name go to one of these. Adapters are last: no such request gets
// one.
api::ModelList WorkerPool::LiveModels() const {
  if (live_models_.has_value()) return *live_models_;
  std::unordered_map<std::string_view, const api::ModelInfo*> best;
  for (const WorkerRef& worker : workers_) {
    for (const api::ModelInfo& model : worker->models) {
      if (worker->refused.contains(model.id)) continue;
      const api::ModelInfo*& known = best[model.id];
      if (known == nullptr || OrderOf(model) < OrderOf(*known)) known = &model;
    }
  }
  std::vector<api::ModelInfo> models;
  for (const std::string& id : known_.ids()) {
    if (const auto found = best.find(id); found != best.end()) models.push_back(*found->second);
  }
  const auto group = [](const api::ModelInfo& model) {
    if (!model.parent.empty()) return 2;
    return model.status.state == api::ModelState::kLoaded ? 0 : 1;
  };
  std::stable_sort(models.begin(), models.end(),
                   [&](const auto& a, const auto& b) { return group(a) < group(b); });
  live_models_ = std::move(models);
  return *live_models_;
}

api::ModelList WorkerPool::Models() const {
  const MutexLock lock(mutex_);
  return LiveModels();
}

Status WorkerPool::AbsentLocked(const std::string& model) const {
  if (!any_came_) return Unavailable("model_loading", "no worker has brought a model yet");
  if (model.empty() || known_.Contains(model, clock_.Now()) || workers_.empty())
    return Unavailable("model_loading", "no worker serves this model now; one is waited for");
  return api::ModelNotFound(model);
}

Status WorkerPool::Absent(const std::string& model) const {
  const MutexLock lock(mutex_);
  return AbsentLocked(model);
}

api::LoadSnapshot WorkerPool::Load() const {
  const MutexLock lock(mutex_);
  api::LoadSnapshot sum;
  sum.level = level_.load(std::memory_order_relaxed);
  api::LoadLevel best = api::LoadLevel::kRed;  // of the workers: a request goes to the best
  for (const WorkerRef& worker : workers_) {
    const api::LoadSnapshot load = FromWire(worker->beat);
    sum.running = SumOf(sum.running, load.running);
    sum.waiting = SumOf(sum.waiting, load.waiting);
    sum.max_num_seqs = SumOf(sum.max_num_seqs, load.max_num_seqs);
    sum.kv_blocks_used = SumOf(sum.kv_blocks_used, load.kv_blocks_used);
    sum.kv_blocks_total = SumOf(sum.kv_blocks_total, load.kv_blocks_total);
    best = std::min(best, load.level);
  }
  sum.waiting = SumOf(sum.waiting, static_cast<int>(waiting_.size()));
  if (!workers_.empty()) sum.level = std::max(sum.level, best);
  return sum;
}

Result<api::ModelStatistics> WorkerPool::Statistics(const std::string& name) const {
  const MutexLock lock(mutex_);
  const api::ModelList models = LiveModels();
  const api::ModelInfo* model =
      name.empty() ? api::DefaultGenerator(models) : api::FindModel(models, name);
  if (model == nullptr) return AbsentLocked(name);
  api::ModelStatistics sum;
  for (const WorkerRef& worker : workers_) {
    for (const v1::WireStatistics& one : worker->beat.statistics()) {
      if (one.model() != model->id) continue;
      sum.executions += one.executions();
      sum.items += one.items();
      sum.busy = Duration(SumOf(sum.busy.count(), Duration(one.busy()).count()));
    }
  }
  return sum;
}

}  // namespace tutti::cluster
