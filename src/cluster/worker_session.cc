// WorkerPool: attaches workers, handles their messages, sends them calls, detects silent ones, and
// handles the requests of a lost one.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/inference_codec.h"
#include "cluster/placement.h"
#include "cluster/work.h"

namespace tutti::cluster {

Result<WorkerPool::WorkerRef> WorkerPool::Attach(const v1::Hello& hello,
                                                 std::shared_ptr<Connection> connection) {
  if (hello.protocol() != kProtocol) {
    return Status(StatusCode::kFailedPrecondition, "invalid_value",
                  "the worker speaks protocol " + std::to_string(hello.protocol()) +
                      ", the frontend " + std::to_string(kProtocol) + ": use one build for both");
  }
  if (draining_.load()) return Draining();
  auto worker = std::make_shared<Worker>();
  worker->name = hello.name();
  worker->name_hash = HashOf(hello.name());
  worker->arithmetic = hello.arithmetic();
  for (const v1::WireModel& model : hello.models()) worker->models.push_back(FromWire(model));
  worker->places = std::max(hello.places(), 1);
  worker->max_num_seqs = worker->base_num_seqs = std::max(hello.max_num_seqs(), 1);
  worker->connection = std::move(connection);
  worker->heard = clock_.Now();
  Status mismatch;
  {
    const MutexLock lock(mutex_);
    for (const api::ModelInfo& model : worker->models) {
      if (mismatch.ok() && model.status.pinned) mismatch = CheckSameFiles(*worker, model);
    }
    if (mismatch.ok()) {
      workers_.push_back(worker);
      live_models_.reset();
      any_came_ = true;
      known_.Came(worker->models, clock_.Now());
      RefuseOtherFiles(*worker);
      EndTrial(worker);  // requests may wait for a worker
    }
  }
  if (!mismatch.ok()) {
    if (log_ != nullptr)
      log_->Error("worker.refused", {{"worker", worker->name}, {"why", mismatch.message()}});
    return mismatch;
  }
  if (log_ != nullptr) {
    log_->Info("worker.attached",
               {{"worker", worker->name},
                {"model", worker->models.empty() ? "" : worker->models.front().id},
                {"models", worker->models.size()},
                {"max_num_seqs", worker->max_num_seqs}});
  }
  return worker;
}

// A model whose files have not been read has no digest yet, and is checked when it has one.
Status WorkerPool::CheckSameFiles(const Worker& worker, const api::ModelInfo& model) const {
  constexpr size_t kShown = 12;  // digits of a digest, which tell two apart
  for (const WorkerRef& other : workers_) {
    if (other.get() == &worker || other->draining) continue;
    const api::ModelInfo* same = other->Model(model.id);
    if (same == nullptr || same->digest == model.digest) continue;
    if (model.digest.empty() || same->digest.empty()) continue;
    return Status(StatusCode::kFailedPrecondition, "invalid_value",
                  "model " + model.id + " has digest " + model.digest.substr(0, kShown) +
                      ", at worker " + other->name + " it has " + same->digest.substr(0, kShown) +
                      "; serve equal files, or under another name");
  }
  return OkStatus();
}

void WorkerPool::RefuseOtherFiles(Worker& worker) {
  std::set<std::string> refused;
  for (const api::ModelInfo& model : worker.models) {
    const Status same = CheckSameFiles(worker, model);
    if (same.ok()) continue;
    refused.insert(model.id);
    if (log_ != nullptr && !worker.refused.contains(model.id)) {
      log_->Warn("worker.model_refused", {{"worker", worker.name}, {"why", same.message()}});
    }
  }
  worker.refused = std::move(refused);
}

void WorkerPool::ReconsiderRefused() {
  for (const WorkerRef& worker : workers_) {
    if (!worker->refused.empty()) RefuseOtherFiles(*worker);
  }
}

void WorkerPool::NotePlacement(const Worker& worker, const std::string& id) {
  const api::ModelInfo* const model = worker.Model(id);
  if (log_ == nullptr || model == nullptr) return;
  const Readiness readiness = worker.ReadinessFor(*model);
  if (readiness <= Readiness::kLoading) return;
  log_->Info("model.placed", {{"model", id},
                              {"worker", worker.name},
                              {"evicts", readiness == Readiness::kFits ? "no" : "yes"}});
}

void WorkerPool::TakeModels(const WorkerRef& worker, const v1::WorkerMessage& message) {
  if (message.has_models()) {
    live_models_.reset();
    std::vector<api::ModelInfo> models;
    for (const v1::WireModel& model : message.models().models()) models.push_back(FromWire(model));
    // In this order, so that no name is forgotten in between.
    known_.Came(models, clock_.Now());
    known_.Left(worker->models, clock_.Now());
    worker->models = std::move(models);
    RefuseOtherFiles(*worker);
    ReconsiderRefused();
  }
  worker->memory_budget = std::max<int64_t>(message.beat().memory_budget(), 0);
  worker->max_num_seqs = std::max(worker->base_num_seqs, message.beat().max_num_seqs());
  std::map<std::string_view, const v1::WireModelStatus*> states;
  for (const v1::WireModelState& state : message.beat().models())
    states.emplace(state.id(), &state.status());
  for (api::ModelInfo& model : worker->models) {
    const auto state = states.find(model.id);
    if (state == states.end()) continue;
    api::ModelStatus status = FromWire(*state->second);
    if (status == model.status) continue;
    model.status = std::move(status);
    live_models_.reset();
  }
}

void WorkerPool::Receive(const WorkerRef& worker, const v1::WorkerMessage& message) {
  {
    const MutexLock lock(mutex_);
    worker->heard = clock_.Now();
    if (message.has_beat()) {
      worker->beat = message.beat();
      TakeModels(worker, message);
      if (message.beat().draining() && !std::exchange(worker->draining, true)) {
        ReconsiderRefused();
        live_models_.reset();
        worker->outbox.set_no_more(true);
        worker->connection->Wake();
      }
    }
  }
  std::vector<std::shared_ptr<Waker>> wakers;
  for (const v1::Update& update : message.updates()) Apply(worker, update, &wakers);
  std::sort(wakers.begin(), wakers.end());
  wakers.erase(std::unique(wakers.begin(), wakers.end()), wakers.end());
  for (const auto& waker : wakers) waker->Wake();
}

bool WorkerPool::TakeMessage(const WorkerRef& worker, v1::FrontendMessage* message) {
  std::vector<std::shared_ptr<const v1::Call>> calls;
  {
    const MutexLock lock(mutex_);
    message->Swap(&worker->outbox);
    calls.swap(worker->calls);
  }
  for (const auto& call : calls) *message->add_calls() = *call;
  return !calls.empty() || message->ByteSizeLong() > 0;
}

void WorkerPool::Look() {
  std::vector<std::shared_ptr<Connection>> silent;
  std::vector<WorkRef> late;
  {
    const MutexLock lock(mutex_);
    const TimePoint now = clock_.Now();
    for (const WorkerRef& worker : workers_) {
      if (now - worker->heard > kSilence) {
        if (log_ != nullptr) log_->Warn("worker.silent", {{"worker", worker->name}});
        worker->heard = now;  // logged once per silence
        silent.push_back(worker->connection);
        continue;
      }
      if (paused_.load() == 0) continue;
      for (const auto& [id, work] : worker->works) {
        if (!work->paused || work->stream->unread_bytes() > kResumeBytes) continue;
        work->paused = false;
        paused_.fetch_sub(1);
        worker->outbox.add_resumed(id);
        worker->connection->Wake();
      }
    }
    std::erase_if(waiting_, [&](const WorkRef& work) {
      if (now < work->deadline) return false;
      late.push_back(work);
      return true;
    });
  }
  for (const auto& connection : silent) connection->Close();
  EndLateQuestions();
  for (const WorkRef& work : late) {
    work->Finish(Status(StatusCode::kDeadlineExceeded, "deadline_exceeded",
                        "the deadline passed before the request could be computed again"));
    if (work->waker != nullptr) work->waker->Wake();
    const MutexLock lock(mutex_);
    Forget(work);
  }
}

// --- a lost worker ---

void WorkerPool::Lost(const WorkerRef& worker, Ended ended_what) {
  std::vector<WorkRef> works;
  std::vector<QuestionRef> unanswered;
  WorkRef trial;
  const bool ours = closed_.load();
  {
    const MutexLock lock(mutex_);
    if (std::exchange(worker->gone, true)) return;
    std::erase(workers_, worker);
    live_models_.reset();
    known_.Left(worker->models, clock_.Now());
    ReconsiderRefused();
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
  for (const WorkRef& work : works) work->ComputeFingerprint();
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
      suspects_.Died(*work->fingerprint, was_on_trial, clock_.Now()) ==
          Suspects::Standing::kQuarantined) {
    ++figures_.quarantined;
    return Quarantined();
  }
  if (work->cancelled) return CancelledByCaller();
  const Status lost = what == Ended::kWay ? WorkerUnreachable() : WorkerLost();
  if (what == Ended::kSilence && ++work->moves > kMaxMoves) return lost;
  if (!MayGoOn(*work, died)) return lost;
  if (work->delivered > 0) {
    work->digest = died.Model(work->model)->digest;  // MayGoOn() has found it
    work->arithmetic = died.arithmetic;
  }
  work->BeginAnew();
  return Place(work).ok() ? OkStatus() : lost;
}

bool WorkerPool::MayGoOn(const Work& work, const Worker& died) const {
  if (work.call->has_generate() && work.delivered > 0 &&
      (!work.repeats || work.call->generate().n() != 1))
    return false;
  const api::ModelInfo* const lost = died.Model(work.model);  // null: its file went meanwhile
  return std::any_of(workers_.begin(), workers_.end(), [&](const WorkerRef& other) {
    const api::ModelInfo* model = other->Model(work.model);
    if (model == nullptr || other->draining) return false;
    return work.delivered == 0 || (lost != nullptr && model->digest == lost->digest &&
                                   other->arithmetic == died.arithmetic);
  });
}

}  // namespace tutti::cluster
