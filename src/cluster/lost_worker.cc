// WorkerPool: handling of a lost worker's requests.
#include <algorithm>
#include <utility>

#include "cluster/endings.h"
#include "cluster/work.h"

namespace tutti::cluster {

void WorkerPool::Lost(const WorkerRef& worker, Ended ended_what) {
  std::vector<WorkRef> works;
  std::vector<QuestionRef> unanswered;
  WorkRef trial;
  const bool ours = closed_.load();
  {
    const MutexLock lock(mutex_);
    if (std::exchange(worker->gone, true)) return;
    std::erase(workers_, worker);
    known_.Left(worker->models, clock_.Now());
    worker->connection = nullptr;  // which holds the worker
    trial = std::exchange(worker->trial, nullptr);
    for (auto& [id, work] : worker->works) {
      work->worker = nullptr;  // from here on only this thread uses it
      if (std::exchange(work->paused, false)) paused_.fetch_sub(1);
      works.push_back(std::move(work));
    }
    worker->works.clear();
    if (!(works.empty() && worker->questions.empty()) && !ours) ++figures_.lost;
    std::map<uint64_t, QuestionRef> questions;
    questions.swap(worker->questions);
    for (const auto& [id, question] : questions) {
      if (!ours && AskAnother(question)) continue;
      Forget(question);
      unanswered.push_back(question);
    }
  }
  for (const QuestionRef& question : unanswered) question->told(ours ? Draining() : WorkerLost());
  for (const WorkRef& work : works) work->TakePrint();
  std::vector<std::pair<WorkRef, Status>> ended;
  size_t resumed = 0;
  {
    const MutexLock lock(mutex_);
    for (const WorkRef& work : works) {
      Status status = ours ? Draining() : AfterLoss(work, *worker, work == trial, ended_what);
      if (status.ok()) {
        ++resumed;
      } else {
        ended.emplace_back(work, std::move(status));
      }
    }
    figures_.resumed += resumed;
    if (!ours) figures_.failed += ended.size();
  }
  for (auto& [work, status] : ended) {
    work->Finish(std::move(status));
    if (work->waker != nullptr) work->waker->Wake();
  }
  {
    const MutexLock lock(mutex_);
    for (auto& [work, status] : ended) Forget(work);
  }
  if (log_ == nullptr) return;
  log_->Info(ended.size() + resumed > 0 ? "worker.lost" : "worker.left",
             {{"worker", worker->name}, {"resumed", resumed}, {"ended", ended.size()}});
}

Status WorkerPool::AfterLoss(const WorkRef& work, Worker& died, bool was_on_trial, Ended what) {
  // A worker that was draining or is unreachable was not killed by its requests.
  if (!died.draining && what == Ended::kWorker &&
      suspects_.Died(*work->print, was_on_trial, clock_.Now()) ==
          Suspects::Standing::kQuarantined) {
    ++figures_.quarantined;
    return Quarantined();
  }
  if (work->cancelled) return CancelledByCaller();
  const Status lost = what == Ended::kWay ? WorkerUnreachable() : WorkerLost();
  if (what == Ended::kSilence && ++work->moves > kMaxMoves) return lost;
  if (!MayGoOn(*work, died)) return lost;
  if (work->delivered > 0) {
    work->digest = died.Model(work->model)->digest;
    work->arithmetic = died.arithmetic;
  }
  work->BeginAnew();
  return Place(work).ok() ? OkStatus() : lost;
}

bool WorkerPool::MayGoOn(const Work& work, const Worker& died) const {
  if (work.call->has_generate() && work.delivered > 0 &&
      (!work.repeats || work.call->generate().n() != 1))
    return false;
  return std::any_of(workers_.begin(), workers_.end(), [&](const WorkerRef& other) {
    const api::ModelInfo* model = other->Model(work.model);
    if (model == nullptr || other->draining) return false;
    return work.delivered == 0 || (model->digest == died.Model(work.model)->digest &&
                                   other->arithmetic == died.arithmetic);
  });
}

}  // namespace tutti::cluster
