#include "cluster/worker_pool.h"

#include <algorithm>
#include <utility>

#include "api/models.h"
#include "api/validate.h"
#include "cluster/inference_codec.h"
#include "cluster/placement.h"
#include "cluster/work.h"

namespace tutti::cluster {
namespace {

constexpr size_t kMaxWaiting = 1024;  // for their trial

}  // namespace

class WorkerPool::Control final : public api::Cancellable {
 public:
  Control(WorkerPool& pool, std::weak_ptr<Work> work) : pool_(pool), work_(std::move(work)) {}
  void Cancel() noexcept override {
    if (const WorkRef work = work_.lock()) pool_.Cancel(work);
  }

 private:
  WorkerPool& pool_;
  const std::weak_ptr<Work> work_;
};

WorkerPool::WorkerPool(const Clock& clock, const std::atomic<api::LoadLevel>& level, Logger* log)
    : clock_(clock), level_(level), log_(log) {}

WorkerPool::~WorkerPool() = default;

Result<api::Generation> WorkerPool::Generate(api::GenerateRequest request,
                                             std::shared_ptr<Waker> waker) {
  RETURN_IF_ERROR(api::ValidateRequest(request));
  if (request.pin) return PinsElsewhere();
  RETURN_IF_ERROR(Refusal(request.priority));
  const api::ModelList models = Models();
  const api::ModelInfo* model =
      request.model.empty() ? api::DefaultGenerator(models) : api::FindModel(models, request.model);
  if (model == nullptr) return Absent(request.model);
  if (!model->generates) {
    return BadValue("model", "model " + model->id + " generates no text");
  }
  // A model whose files the worker has not read yet has no size; the worker checks again.
  if (model->vocab_size > 0) {
    RETURN_IF_ERROR(api::ValidateTokenIds(request.sampling, model->vocab_size));
  }
  auto work = std::make_shared<Work>();
  work->model = model->id;
  work->affinity = AffinityKey(request.tenant, request.prompt, kAffinityBytes);
  work->deadline = request.deadline;
  work->repeats = request.sampling.temperature == 0 || request.sampling.seed.has_value();
  work->report = request.cache_report;
  work->waker = waker;
  work->call = std::make_shared<v1::Call>();
  ToWire(request, clock_.Now(), work->call->mutable_generate());
  work->call->mutable_generate()->mutable_place()->set_model(model->id);
  work->trace = std::move(request.trace);
  if (work->trace != nullptr) work->trace->SetModel(model->id);
  work->stream = std::make_shared<api::TokenStream>(std::move(waker),
                                                    std::exchange(request.observer, nullptr));
  RETURN_IF_ERROR(Begin(work));
  return api::Generation(work->stream, std::make_shared<Control>(*this, work));
}

Result<api::Encoding> WorkerPool::Encode(api::EncodeRequest request, std::shared_ptr<Waker> waker) {
  RETURN_IF_ERROR(Refusal(request.priority));
  const api::ModelList models = Models();
  const api::ModelInfo* model = api::EncoderFor(models, request);
  if (model == nullptr) {
    if (models.empty() || !request.model.empty()) return Absent(request.model);
    return BadValue("model", "no model gives what is asked for");
  }
  auto work = std::make_shared<Work>();
  work->model = model->id;
  work->deadline = request.deadline;
  work->repeats = true;
  work->report = request.cache_report;
  work->waker = waker;
  work->call = std::make_shared<v1::Call>();
  ToWire(request, clock_.Now(), work->call->mutable_encode());
  work->call->mutable_encode()->mutable_place()->set_model(model->id);
  work->trace = std::move(request.trace);
  if (work->trace != nullptr) work->trace->SetModel(model->id);
  work->encoding = std::make_shared<api::EncodingState>(std::move(waker), nullptr,
                                                        std::exchange(request.observer, nullptr));
  RETURN_IF_ERROR(Begin(work));
  return api::Encoding(work->encoding, std::make_shared<Control>(*this, work));
}

Status WorkerPool::Refusal(api::Priority priority) const {
  if (draining_.load()) return Draining();
  const api::LoadLevel level = level_.load(std::memory_order_relaxed);
  if (level == api::LoadLevel::kRed ||
      (level == api::LoadLevel::kYellow && priority != api::Priority::kInteractive))
    return Unavailable("overloaded", "the frontend is short of memory");
  return OkStatus();
}

Status WorkerPool::Begin(const WorkRef& work) {
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (suspects_.size() == 0 || work->fingerprint) {
        work->id = next_id_++;
        work->call->set_id(work->id);
        ++works_;
        Status status = Place(work);
        if (!status.ok()) --works_;
        return status;
      }
    }
    work->ComputeFingerprint();  // and again, as everything may be different now
  }
}

WorkerPool::WorkerRef WorkerPool::Choose(const Work& work) const {
  std::vector<Candidate> candidates;
  std::vector<WorkerRef> chosen;
  for (const WorkerRef& worker : workers_) {
    const api::ModelInfo* model = worker->Model(work.model);
    if (model == nullptr || worker->draining) continue;
    if (static_cast<int>(worker->works.size()) >= worker->places) continue;
    if (work.on_trial && worker->trial != nullptr) continue;
    if (!work.digest.empty() &&
        (model->digest != work.digest || worker->arithmetic != work.arithmetic))
      continue;
    candidates.push_back({worker->name_hash, static_cast<int>(worker->works.size()),
                          worker->max_num_seqs, worker->ReadinessFor(*model)});
    chosen.push_back(worker);
  }
  const std::optional<size_t> index = ChooseWorker(candidates, work.affinity);
  return index ? chosen[*index] : nullptr;
}

Status WorkerPool::Place(const WorkRef& work) {
  if (suspects_.size() > 0) {
    const Suspects::Standing standing = suspects_.Of(*work->fingerprint, clock_.Now());
    if (standing == Suspects::Standing::kQuarantined) return Quarantined();
    work->on_trial = standing == Suspects::Standing::kSuspect;
  }
  if (const WorkerRef worker = Choose(*work)) {
    Send(worker, work);
    return OkStatus();
  }
  if (work->on_trial && waiting_.size() < kMaxWaiting) {
    waiting_.push_back(work);
    return OkStatus();
  }
  if (std::none_of(workers_.begin(), workers_.end(),
                   [&](const WorkerRef& worker) { return worker->Model(work->model) != nullptr; }))
    return AbsentLocked(work->model);
  return Unavailable("queue_full", "all workers have as many requests as they take")
      .WithRetryAfter(std::chrono::seconds(1));
}

void WorkerPool::Send(const WorkerRef& worker, const WorkRef& work) {
  NotePlacement(*worker, work->model);
  work->worker = worker;
  worker->Add(work);
  if (work->on_trial) worker->trial = work;
  if (work->deadline != TimePoint::max()) {  // of which less may be left than when it was written
    const int64_t left = std::max<int64_t>((work->deadline - clock_.Now()).count(), 1);
    // Copied, because another connection may still be sending the old message.
    if (work->sent) work->call = std::make_shared<v1::Call>(*work->call);
    v1::WirePlace* place = work->call->has_generate()
                               ? work->call->mutable_generate()->mutable_place()
                               : work->call->mutable_encode()->mutable_place();
    place->set_deadline(left);
  }
  work->sent = true;
  if (work->trace != nullptr) {
    work->trace->SetWorker(worker->name);
    work->trace->hop().Append({.at = clock_.Now(), .kind = api::TraceEvent::Kind::kSent});
  }
  worker->calls.push_back(work->call);
  worker->connection->Wake();
}

// The next that waits, if it may go there.
void WorkerPool::EndTrial(const WorkerRef& worker) {
  worker->trial = nullptr;
  for (auto next = waiting_.begin(); next != waiting_.end(); ++next) {
    const WorkRef work = *next;
    if (const WorkerRef chosen = Choose(*work)) {
      waiting_.erase(next);
      Send(chosen, work);
      return;
    }
  }
}

void WorkerPool::Cancel(const WorkRef& work) {
  {
    const MutexLock lock(mutex_);
    if (work->over || std::exchange(work->cancelled, true)) return;
    if (work->worker != nullptr) {
      work->worker->outbox.add_cancelled(work->id);
      work->worker->connection->Wake();
      return;
    }
    // Its worker has been lost, and Lost() ends it; or it waits.
    if (std::erase(waiting_, work) == 0) return;
  }
  work->Finish(CancelledByCaller());
  if (work->waker != nullptr) work->waker->Wake();
  const MutexLock lock(mutex_);
  Forget(work);
}

void WorkerPool::Apply(const WorkerRef& worker, const v1::Update& update,
                       std::vector<std::shared_ptr<Waker>>* wakers) {
  WorkRef work;
  QuestionRef question;
  bool suspects = false;
  {
    const MutexLock lock(mutex_);
    if (const auto asked = worker->questions.find(update.id()); asked != worker->questions.end()) {
      question = asked->second;
      Forget(question);
    } else {
      const auto found = worker->works.find(update.id());
      if (found == worker->works.end()) return;
      work = found->second;
      suspects = suspects_.size() > 0;
    }
  }
  if (question != nullptr) return question->told(update);
  work->Take(update);
  if (work->waker != nullptr) wakers->push_back(work->waker);
  const bool behind = work->stream != nullptr && work->stream->unread_bytes() > kPauseBytes;
  const bool over = update.has_ended() || work->diverged;
  if (!over && !behind) return;
  if (over && !update.has_ended()) work->Finish(WorkerLost());
  if (over && suspects) work->ComputeFingerprint();
  const MutexLock lock(mutex_);
  if (over) {
    if (!update.has_ended()) worker->outbox.add_cancelled(work->id);
    if (work->fingerprint) suspects_.Answered(*work->fingerprint);
    Forget(work);
  } else if (!work->paused) {
    work->paused = true;
    paused_.fetch_add(1);
    worker->outbox.add_paused(work->id);
  }
  if (worker->outbox.ByteSizeLong() > 0) worker->connection->Wake();
}

void WorkerPool::Forget(const WorkRef& work) {
  if (work->over) return;
  work->over = true;
  if (work->trace != nullptr) {
    work->trace->hop().Append({.at = clock_.Now(), .kind = api::TraceEvent::Kind::kReplied},
                              /*essential=*/true);
  }
  if (std::exchange(work->paused, false)) paused_.fetch_sub(1);
  --works_;
  if (const WorkerRef worker = std::exchange(work->worker, nullptr)) {
    worker->Remove(*work);
    if (worker->trial == work) EndTrial(worker);
  }
  changed_.NotifyAll();
}

}  // namespace tutti::cluster
