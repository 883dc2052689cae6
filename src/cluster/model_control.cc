// WorkerPool: models that are loaded and unloaded at the workers.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/models.h"
#include "cluster/inference_codec.h"
#include "cluster/work.h"

namespace tutti::cluster {
namespace {

Status EndOfCall(const Result<v1::Update>& answer) {
  return answer.ok() ? FromWire(answer->ended()) : answer.status();
}

// The end of several calls: the first error of any, or success.
class Joined {
 public:
  Joined(size_t calls, api::ModelControl::Done done) : left_(calls), done_(std::move(done)) {}
  void End(Status status) {
    {
      const MutexLock lock(mutex_);
      if (status_.ok()) status_ = std::move(status);
      if (--left_ > 0) return;
    }
    done_(status_);
  }

 private:
  Mutex mutex_;
  size_t left_ GUARDED_BY(mutex_);
  Status status_;  // guarded until the last call has ended
  const api::ModelControl::Done done_;
};

bool MayHaveMemory(api::ModelState state) {
  return state != api::ModelState::kUnloaded && state != api::ModelState::kFailed;
}

}  // namespace

void WorkerPool::Load(const std::string& name, ModelControl::Done done) {
  std::string id;
  Status refused;
  {
    const MutexLock lock(mutex_);
    size_t waiting = 0;
    for (const auto& [model, calls] : loads_) waiting += calls.size();
    const api::ModelList models = LiveModels();
    const api::ModelInfo* const model = api::FindModel(models, name);
    if (model == nullptr) {
      refused = AbsentLocked(name);
    } else if (waiting >= kMaxLoads ||
               (loads_.size() >= kMaxLoadingModels && !loads_.contains(model->id))) {
      refused = Unavailable("queue_full",
                            fmt::format("{} calls wait for models that are being loaded, limit {}; "
                                        "retry later",
                                        waiting, kMaxLoads));
    } else {
      id = model->id;
      std::vector<ModelControl::Done>& calls = loads_[id];
      calls.push_back(std::move(done));
      if (calls.size() > 1) return;
    }
  }
  if (!refused.ok()) return done(std::move(refused));
  auto call = std::make_shared<v1::Call>();
  call->set_load(id);
  Ask(id, std::move(call), kLoadPatience, true,
      [this, id](const Result<v1::Update>& answer) { EndLoads(id, EndOfCall(answer)); });
}

void WorkerPool::EndLoads(const std::string& model, const Status& status) {
  std::vector<ModelControl::Done> calls;
  {
    const MutexLock lock(mutex_);
    const auto found = loads_.find(model);
    if (found == loads_.end()) return;
    calls = std::move(found->second);
    loads_.erase(found);
  }
  for (const ModelControl::Done& done : calls) done(status);
}

void WorkerPool::Unload(const std::string& name, ModelControl::Done done) {
  Status refused;
  {
    const MutexLock lock(mutex_);
    const api::ModelList models = LiveModels();
    const api::ModelInfo* const model = api::FindModel(models, name);
    std::vector<WorkerRef> asked;
    for (const WorkerRef& worker : workers_) {
      const api::ModelInfo* const own = model == nullptr ? nullptr : worker->Model(model->id);
      if (own == nullptr) continue;
      if (MayHaveMemory(own->status.state) || worker->Requested(own->id)) asked.push_back(worker);
    }
    if (model == nullptr) {
      refused = AbsentLocked(name);
    } else if (questions_.load() + asked.size() > kMaxQuestions) {
      refused = Unavailable("overloaded", "too many calls of workers are unanswered; retry later");
    } else if (!asked.empty()) {
      const auto joined = std::make_shared<Joined>(asked.size(), std::move(done));
      for (const WorkerRef& worker : asked) {
        auto call = std::make_shared<v1::Call>();
        call->set_unload(model->id);
        AskWorker(worker, std::move(call), kLoadPatience,
                  [joined](const Result<v1::Update>& answer) {
                    Status status = EndOfCall(answer);
                    // The memory of a process that has ended is released.
                    joined->End(status.reason() == "worker_lost" ? OkStatus() : std::move(status));
                  });
      }
      return;
    }
  }
  done(std::move(refused));
}

void WorkerPool::KeepAlive(const std::string& name, Duration keep_alive) {
  const MutexLock lock(mutex_);
  const api::ModelList models = LiveModels();
  const api::ModelInfo* const model = api::FindModel(models, name);
  if (model == nullptr || questions_.load() + workers_.size() > kMaxQuestions) return;
  for (const WorkerRef& worker : workers_) {
    const api::ModelInfo* const own = worker->Model(model->id);
    if (own == nullptr || !MayHaveMemory(own->status.state)) continue;
    auto call = std::make_shared<v1::Call>();
    call->mutable_keep_alive()->set_model(model->id);
    call->mutable_keep_alive()->set_keep_alive(keep_alive.count());
    AskWorker(worker, std::move(call), kPatience, [](const Result<v1::Update>&) {});
  }
}

void WorkerPool::Rescan() {
  const MutexLock lock(mutex_);
  if (questions_.load() + workers_.size() > kMaxQuestions) return;
  for (const WorkerRef& worker : workers_) {
    auto call = std::make_shared<v1::Call>();
    call->set_rescan(true);
    AskWorker(worker, std::move(call), kPatience, [](const Result<v1::Update>&) {});
  }
}

void WorkerPool::EndControl() {
  std::vector<QuestionRef> ended;
  {
    const MutexLock lock(mutex_);
    for (const WorkerRef& worker : workers_) {
      for (const auto& [id, question] : worker->questions) {
        if (question->call->has_load() || question->call->has_unload()) ended.push_back(question);
      }
    }
    for (const QuestionRef& question : ended) Forget(question);
  }
  for (const QuestionRef& question : ended) question->told(Draining());
}

}  // namespace tutti::cluster
