// WorkerPool: attaches workers, handles their messages, sends them calls, and detects silent ones.
#include <algorithm>
#include <utility>

#include "cluster/endings.h"
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
  if (hello.models().empty()) return InvalidArgument("invalid_value", "a worker without a model");
  if (draining_.load()) return Draining();
  auto worker = std::make_shared<Worker>();
  worker->name = hello.name();
  worker->name_hash = HashOf(hello.name());
  worker->arithmetic = hello.arithmetic();
  for (const v1::WireModel& model : hello.models()) worker->models.push_back(FromWire(model));
  worker->places = std::max(hello.places(), 1);
  worker->max_num_seqs = std::max(hello.max_num_seqs(), 1);
  worker->connection = std::move(connection);
  worker->heard = clock_.Now();
  if (log_ != nullptr) {
    log_->Info("worker.attached", {{"worker", worker->name},
                                   {"model", worker->models.front().id},
                                   {"models", worker->models.size()},
                                   {"max_num_seqs", worker->max_num_seqs}});
  }
  const MutexLock lock(mutex_);
  workers_.push_back(worker);
  any_came_ = true;
  known_.Came(worker->models, clock_.Now());
  EndTrial(worker);  // requests may wait for a worker
  return worker;
}

void WorkerPool::Receive(const WorkerRef& worker, const v1::WorkerMessage& message) {
  {
    const MutexLock lock(mutex_);
    worker->heard = clock_.Now();
    if (message.has_beat()) {
      worker->beat = message.beat();
      if (message.beat().draining() && !std::exchange(worker->draining, true)) {
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

}  // namespace tutti::cluster
