#include "remote/worker_pool.h"

#include <openssl/sha.h>

#include <algorithm>
#include <utility>

#include "api/models.h"
#include "api/validate.h"
#include "remote/placement.h"
#include "remote/waist_codec.h"

namespace tutti::remote {
namespace {

constexpr size_t kMostWaiting = 1024;  // for their trial

Status WorkerLost() {
  return Unavailable("worker_lost", "the process that computed this ended; ask again");
}
Status WorkerUnreachable() {
  return Unavailable("worker_unreachable",
                     "there is no way any more to the process that computed this; ask again");
}
Status Quarantined() {
  return Status(StatusCode::kFailedPrecondition, "request_quarantined",
                "workers ended while they computed this request; it is refused for an hour");
}
Status CancelledByCaller() {
  return Status(StatusCode::kCancelled, "cancelled", "the caller cancelled the request");
}
Status Draining() { return Unavailable("draining", "the server is shutting down"); }

Fingerprint HashOfWork(const std::string& bytes) {
  Fingerprint print;
  SHA256(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), print.data());
  return print;
}

Status Nonsense() {
  return Unavailable("worker_lost", "the worker answered something else than was asked");
}

// As the worker tells it. That it drains is no word of this process's: who runs jobs would stop.
Status EndOf(const v1::Update& update) {
  Status status = FromWire(update.ended());
  return status.reason() == "draining" ? WorkerLost() : status;
}

// Whether the result is one of that request: nothing that a reader may index by is missing.
bool Fits(const v1::WireEncode& asked, const v1::WireEncodeResult& result) {
  const auto inputs = asked.inputs_size();
  if (result.width() < 0 || result.tokens_size() != inputs) return false;
  int64_t rows = inputs;
  if (asked.output() == static_cast<int>(api::EncodeOutput::kTokens)) {
    if (result.rows_size() != inputs) return false;
    rows = 0;
    for (const int32_t count : result.rows()) {
      if (count < 0) return false;
      rows += count;
    }
  }
  return result.values_size() == rows * result.width();
}

// FNV-1a over what must be the same when an event is made again.
uint64_t Hashed(uint64_t hash, const v1::WireEvent& event) {
  const auto add = [&hash](uint64_t value) { hash = (hash ^ value) * 0x100000001B3u; };
  add(static_cast<uint64_t>(event.kind()));
  add(static_cast<uint64_t>(event.token()));
  for (const char c : event.text()) add(static_cast<uint8_t>(c));
  return hash;
}

}  // namespace

// One that has said hello, until its connection ends. Guarded by the pool's mutex, but for what
// never changes.
class WorkerPool::Worker {
 public:
  uint64_t name_hash = 0;
  std::string name, arithmetic;
  std::vector<api::ModelInfo> models;
  int places = 0, lanes = 1;
  std::shared_ptr<Connection> connection;

  std::map<uint64_t, WorkRef> works;
  std::vector<std::shared_ptr<const v1::Call>> calls;  // not yet sent
  v1::FrontMessage outbox;                             // all but calls
  WorkRef trial;
  v1::Beat beat;
  TimePoint heard;
  bool draining = false, gone = false;

  const api::ModelInfo* Model(const std::string& id) const {
    const auto found = std::find_if(models.begin(), models.end(),
                                    [&](const api::ModelInfo& model) { return model.id == id; });
    return found == models.end() ? nullptr : &*found;
  }
};

// One call. What it asks never changes; the writer's part belongs to the thread of its worker, the
// rest is guarded by the pool's mutex.
struct WorkerPool::Work {
  uint64_t id = 0;
  std::string model;  // id
  std::shared_ptr<v1::Call> call;
  TimePoint deadline = TimePoint::max();
  uint64_t affinity = 0;
  bool repeats = false;  // the same again, wherever it is computed: greedy, or with a seed
  std::shared_ptr<api::TokenStream> stream;      // of a generation
  std::shared_ptr<api::EncodingState> encoding;  // of an encoding; of a question neither
  std::shared_ptr<api::StreamWaker> waker;
  std::shared_ptr<api::CacheReport> report;  // may be null

  // --- the writer's ---
  size_t delivered = 0, seen = 0, skip = 0;  // events: written; of this worker; not to be repeated
  uint64_t written_hash = 0, seen_hash = 0;
  api::Usage usage;
  api::Timings timings;
  bool diverged = false;

  // --- guarded ---
  WorkerRef worker;                // null: it waits for its trial
  std::string digest, arithmetic;  // that a worker must have to go on with it; empty: any
  std::optional<Fingerprint> print;
  int moves = 0;  // away from silent workers
  bool sent = false, on_trial = false, cancelled = false, paused = false, over = false;
  std::optional<v1::Update> reply;  // of a question

  const Fingerprint& Print() {
    if (!print) {
      std::string asked = model;
      if (call->has_generate()) {
        asked += call->generate().prompt().SerializeAsString();
        asked += call->generate().sampling().SerializeAsString();
      } else {
        for (const v1::WireEncodeInput& input : call->encode().inputs())
          asked += input.SerializeAsString();
      }
      print = HashOfWork(asked);
    }
    return *print;
  }
};

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

// --- the connection's side ---

Result<WorkerPool::WorkerRef> WorkerPool::Attach(const v1::Hello& hello,
                                                 std::shared_ptr<Connection> connection) {
  if (hello.protocol() != kProtocol) {
    return Status(StatusCode::kFailedPrecondition, "invalid_value",
                  "the worker speaks protocol " + std::to_string(hello.protocol()) +
                      ", the front " + std::to_string(kProtocol) + ": use one build for both");
  }
  if (hello.models().empty()) return InvalidArgument("invalid_value", "a worker without a model");
  if (draining_.load()) return Draining();
  auto worker = std::make_shared<Worker>();
  worker->name = hello.name();
  worker->name_hash = HashOf(hello.name());
  worker->arithmetic = hello.arithmetic();
  for (const v1::WireModel& model : hello.models()) worker->models.push_back(FromWire(model));
  worker->places = std::max(hello.places(), 1);
  worker->lanes = std::max(hello.lanes(), 1);
  worker->connection = std::move(connection);
  worker->heard = clock_.Now();
  if (log_ != nullptr) {
    log_->Info("worker.attached", {{"worker", worker->name},
                                   {"model", worker->models.front().id},
                                   {"models", worker->models.size()},
                                   {"lanes", worker->lanes}});
  }
  const MutexLock lock(mutex_);
  workers_.push_back(worker);
  for (const api::ModelInfo& model : worker->models) {
    if (std::find(known_models_.begin(), known_models_.end(), model.id) == known_models_.end())
      known_models_.push_back(model.id);
    known_names_.insert(model.id);
    known_names_.insert(model.aliases.begin(), model.aliases.end());
  }
  EndTrial(worker);  // some may wait for a worker
  changed_.NotifyAll();
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
  std::vector<std::shared_ptr<api::StreamWaker>> wakers;
  for (const v1::Update& update : message.updates()) Apply(worker, update, &wakers);
  std::sort(wakers.begin(), wakers.end());
  wakers.erase(std::unique(wakers.begin(), wakers.end()), wakers.end());
  for (const auto& waker : wakers) waker->Wake();
}

void WorkerPool::Apply(const WorkerRef& worker, const v1::Update& update,
                       std::vector<std::shared_ptr<api::StreamWaker>>* wakers) {
  WorkRef work;
  {
    const MutexLock lock(mutex_);
    const auto found = worker->works.find(update.id());
    if (found == worker->works.end()) return;
    work = found->second;
    if (work->stream == nullptr && work->encoding == nullptr) {
      work->reply = update;
      Forget(work);
      return;
    }
  }
  Write(*work, update);
  if (work->waker != nullptr) wakers->push_back(work->waker);
  const bool behind = work->stream != nullptr && work->stream->unread_bytes() > kPauseBytes;
  if (!update.has_ended() && !work->diverged && !behind) return;
  if (work->diverged && !update.has_ended()) Finish(*work, WorkerLost());
  const MutexLock lock(mutex_);
  if (update.has_ended() || work->diverged) {
    if (!update.has_ended()) worker->outbox.add_cancelled(work->id);
    if (suspects_.size() > 0) suspects_.Answered(work->Print());
    Forget(work);
  } else if (!work->paused) {
    work->paused = true;
    paused_.fetch_add(1);
    worker->outbox.add_paused(work->id);
  }
  if (worker->outbox.ByteSizeLong() > 0) worker->connection->Wake();
}

void WorkerPool::Write(Work& work, const v1::Update& update) {
  if (update.has_cache() && work.report != nullptr && work.delivered == 0)
    work.report->Set(static_cast<api::CacheOutcome>(std::clamp(update.cache().outcome(), 0, 4)),
                     Duration(update.cache().age()));
  if (work.encoding != nullptr) {
    if (update.prepared()) work.encoding->Prepared();
    if (!update.has_ended()) return;
    const Status status = EndOf(update);
    if (!status.ok()) return Finish(work, status);
    if (!Fits(work.call->encode(), update.encoded())) return Finish(work, Nonsense());
    return work.encoding->Finish(FromWire(update.encoded()));
  }
  for (const v1::WireEvent& wire : update.events()) {
    if (work.diverged) return;
    if (wire.kind() == static_cast<int>(api::StreamEvent::Kind::kEnd)) {
      const api::StreamEvent end = FromWire(wire);
      work.usage = end.usage;
      work.timings = end.timings;
      continue;
    }
    if (wire.choice() < 0 || wire.choice() >= work.call->generate().n()) {
      work.diverged = true;
      return;
    }
    ++work.seen;
    work.seen_hash = Hashed(work.seen_hash, wire);
    if (work.seen > work.skip) {
      work.stream->Append(FromWire(wire));
      ++work.delivered;
      work.written_hash = work.seen_hash;
    } else if (work.seen == work.skip) {
      work.diverged = work.seen_hash != work.written_hash;
    }
  }
  if (!update.has_ended()) return;
  // An answer that ended before its reader's place was another one.
  work.diverged = work.diverged || work.seen < work.skip;
  Finish(work, work.diverged ? WorkerLost() : EndOf(update));
}

void WorkerPool::Finish(Work& work, Status status) {
  if (work.stream != nullptr)
    return work.stream->Finish(std::move(status), work.usage, work.timings);
  if (work.encoding != nullptr) {
    if (status.ok()) status = Internal("an encoding without a result");
    work.encoding->Finish(std::move(status));
  }
}

void WorkerPool::Forget(const WorkRef& work) {
  if (work->over) return;
  work->over = true;
  if (std::exchange(work->paused, false)) paused_.fetch_sub(1);
  --works_;
  if (const WorkerRef worker = std::exchange(work->worker, nullptr)) {
    worker->works.erase(work->id);
    if (worker->trial == work) EndTrial(worker);
  }
  changed_.NotifyAll();
}

bool WorkerPool::TakeMessage(const WorkerRef& worker, v1::FrontMessage* message) {
  std::vector<std::shared_ptr<const v1::Call>> calls;
  {
    const MutexLock lock(mutex_);
    message->Swap(&worker->outbox);
    calls.swap(worker->calls);
  }
  for (const auto& call : calls) *message->add_calls() = *call;
  return !calls.empty() || message->ByteSizeLong() > 0;
}

void WorkerPool::Lost(const WorkerRef& worker, Ended ended_what) {
  std::vector<std::pair<WorkRef, Status>> ended;
  size_t resumed = 0;
  {
    const MutexLock lock(mutex_);
    if (std::exchange(worker->gone, true)) return;
    std::erase(workers_, worker);
    worker->connection = nullptr;  // which holds the worker
    const TimePoint now = clock_.Now();
    const bool ours = closed_.load();
    std::map<uint64_t, WorkRef> works;
    works.swap(worker->works);
    const WorkRef trial = std::exchange(worker->trial, nullptr);
    if (!works.empty() && !ours) ++figures_.lost;
    for (auto& [id, work] : works) {
      work->worker = nullptr;
      if (std::exchange(work->paused, false)) paused_.fetch_sub(1);
      const bool question = work->stream == nullptr && work->encoding == nullptr;
      if (question) {
        v1::Update reply;
        ToWire(ours ? Draining() : WorkerLost(), reply.mutable_ended());
        work->reply = std::move(reply);
        Forget(work);
        continue;
      }
      Status status = ours ? Draining() : OkStatus();
      // One that was leaving, or cannot be reached, has not been killed by what it had.
      if (!ours && !worker->draining && ended_what == Ended::kWorker &&
          suspects_.Died(work->Print(), work == trial, now) == Suspects::Standing::kQuarantined) {
        ++figures_.quarantined;
        status = Quarantined();
      } else if (!ours && work->cancelled) {
        status = CancelledByCaller();
      } else if (!ours) {
        const Status lost = ended_what == Ended::kWay ? WorkerUnreachable() : WorkerLost();
        const bool moved_enough = ended_what == Ended::kSilence && ++work->moves > kMostMoves;
        status = !moved_enough && MayGoOn(*work, *worker) ? OkStatus() : lost;
        if (status.ok()) {
          if (work->delivered > 0) {
            const api::ModelInfo* model = worker->Model(work->model);
            work->digest = model->digest;
            work->arithmetic = worker->arithmetic;
          }
          work->skip = work->delivered;
          work->seen = 0;
          work->seen_hash = 0;
          if (!Place(work).ok()) status = lost;
        }
      }
      if (status.ok()) {
        ++resumed;
        continue;
      }
      ended.emplace_back(work, std::move(status));
    }
    figures_.resumed += resumed;
    if (!ours) figures_.failed += ended.size();
  }
  for (auto& [work, status] : ended) {
    Finish(*work, std::move(status));
    if (work->waker != nullptr) work->waker->Wake();
  }
  {
    const MutexLock lock(mutex_);
    for (auto& [work, status] : ended) Forget(work);
    changed_.NotifyAll();
  }
  if (log_ == nullptr) return;
  log_->Info(ended.size() + resumed > 0 ? "worker.lost" : "worker.left",
             {{"worker", worker->name}, {"resumed", resumed}, {"ended", ended.size()}});
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

void WorkerPool::Look() {
  std::vector<std::shared_ptr<Connection>> silent;
  std::vector<WorkRef> late;
  {
    const MutexLock lock(mutex_);
    const TimePoint now = clock_.Now();
    for (const WorkerRef& worker : workers_) {
      if (now - worker->heard > kSilence) {
        if (log_ != nullptr) log_->Warn("worker.silent", {{"worker", worker->name}});
        worker->heard = now;  // said once
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
  for (const WorkRef& work : late) {
    Finish(*work, Status(StatusCode::kDeadlineExceeded, "deadline_exceeded",
                         "the deadline passed before the request could be computed again"));
    if (work->waker != nullptr) work->waker->Wake();
    const MutexLock lock(mutex_);
    Forget(work);
  }
}

// --- placing ---

Status WorkerPool::AbsentLocked(const std::string& model) const {
  if (known_models_.empty())
    return Unavailable("model_loading", "no worker has brought a model yet");
  if (model.empty() || known_names_.contains(model) || workers_.empty())
    return Unavailable("model_loading", "no worker serves this model now; one is waited for");
  return api::ModelNotFound(model);
}

Status WorkerPool::Refusal(api::Priority priority) const {
  if (draining_.load()) return Draining();
  const api::LoadLevel level = level_.load(std::memory_order_relaxed);
  if (level == api::LoadLevel::kRed ||
      (level == api::LoadLevel::kYellow && priority != api::Priority::kInteractive))
    return Unavailable("overloaded", "the front is short of memory");
  return OkStatus();
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
    candidates.push_back(
        {worker->name_hash, static_cast<int>(worker->works.size()), worker->lanes});
    chosen.push_back(worker);
  }
  const std::optional<size_t> index = ChooseWorker(candidates, work.affinity);
  return index ? chosen[*index] : nullptr;
}

Status WorkerPool::Place(const WorkRef& work) {
  if (suspects_.size() > 0) {
    const Suspects::Standing standing = suspects_.Of(work->Print(), clock_.Now());
    if (standing == Suspects::Standing::kQuarantined) return Quarantined();
    work->on_trial = standing == Suspects::Standing::kSuspect;
  }
  if (const WorkerRef worker = Choose(*work)) {
    Send(worker, work);
    return OkStatus();
  }
  if (work->on_trial && waiting_.size() < kMostWaiting) {
    waiting_.push_back(work);
    return OkStatus();
  }
  return Unavailable("queue_full", "all workers have as many requests as they take")
      .WithRetryAfter(std::chrono::seconds(1));
}

void WorkerPool::Send(const WorkerRef& worker, const WorkRef& work) {
  work->worker = worker;
  worker->works[work->id] = work;
  if (work->on_trial) worker->trial = work;
  if (work->deadline != TimePoint::max()) {  // of which less may be left than when it was written
    const int64_t left = std::max<int64_t>((work->deadline - clock_.Now()).count(), 1);
    // Another connection may still be sending the message as it was.
    if (work->sent) work->call = std::make_shared<v1::Call>(*work->call);
    v1::WirePlace* place = work->call->has_generate()
                               ? work->call->mutable_generate()->mutable_place()
                               : work->call->mutable_encode()->mutable_place();
    place->set_deadline(left);
  }
  work->sent = true;
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
  Finish(*work, CancelledByCaller());
  if (work->waker != nullptr) work->waker->Wake();
  const MutexLock lock(mutex_);
  Forget(work);
}

// --- the owner's ---

void WorkerPool::BeginDrain() { draining_.store(true); }

bool WorkerPool::Drain(Duration limit) {
  BeginDrain();
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
    Finish(*work, Draining());
    if (work->waker != nullptr) work->waker->Wake();
    const MutexLock lock(mutex_);
    Forget(work);
  }
  return clean;
}

Status WorkerPool::started() const {
  const MutexLock lock(mutex_);
  if (known_models_.empty())
    return Unavailable("model_loading", "no worker has brought a model yet");
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
  return figures;
}

// --- api::Inference ---

std::vector<api::ModelInfo> WorkerPool::LiveModels() const {
  std::vector<api::ModelInfo> models;
  for (const std::string& id : known_models_) {
    for (const WorkerRef& worker : workers_) {
      const api::ModelInfo* model = worker->Model(id);
      if (model == nullptr) continue;
      models.push_back(*model);
      break;
    }
  }
  return models;
}

std::vector<api::ModelInfo> WorkerPool::Models() const {
  const MutexLock lock(mutex_);
  return LiveModels();
}

Result<api::Generation> WorkerPool::Generate(api::GenerateRequest request,
                                             std::shared_ptr<api::StreamWaker> waker) {
  RETURN_IF_ERROR(api::ValidateRequest(request));
  auto work = std::make_shared<Work>();
  work->affinity = AffinityKey(request.tenant, request.prompt, kAffinityBytes);
  work->deadline = request.deadline;
  work->repeats = request.sampling.temperature == 0 || request.sampling.seed.has_value();
  work->report = request.cache_report;
  work->waker = waker;
  work->call = std::make_shared<v1::Call>();
  ToWire(request, clock_.Now(), work->call->mutable_generate());
  const MutexLock lock(mutex_);
  RETURN_IF_ERROR(Refusal(request.priority));
  const std::vector<api::ModelInfo> models = LiveModels();
  const api::ModelInfo* model =
      request.model.empty() ? api::DefaultGenerator(models) : api::FindModel(models, request.model);
  if (model == nullptr) return AbsentLocked(request.model);
  if (!model->generates) {
    return InvalidArgument("invalid_value", "model " + model->id + " generates no text")
        .WithParam("model");
  }
  RETURN_IF_ERROR(api::ValidateTokenIds(request.sampling, model->vocab_size));
  work->model = model->id;
  work->call->mutable_generate()->mutable_place()->set_model(model->id);
  work->id = next_id_++;
  work->call->set_id(work->id);
  work->stream = std::make_shared<api::TokenStream>(std::move(waker),
                                                    std::exchange(request.observer, nullptr));
  ++works_;
  if (Status status = Place(work); !status.ok()) {
    --works_;
    return status;
  }
  return api::Generation(work->stream, std::make_shared<Control>(*this, work));
}

Result<api::Encoding> WorkerPool::Encode(api::EncodeRequest request,
                                         std::shared_ptr<api::StreamWaker> waker) {
  auto work = std::make_shared<Work>();
  work->deadline = request.deadline;
  work->repeats = true;
  work->report = request.cache_report;
  work->waker = waker;
  work->call = std::make_shared<v1::Call>();
  ToWire(request, clock_.Now(), work->call->mutable_encode());
  const MutexLock lock(mutex_);
  RETURN_IF_ERROR(Refusal(request.priority));
  const std::vector<api::ModelInfo> models = LiveModels();
  const api::ModelInfo* model = api::EncoderFor(models, request);
  if (model == nullptr) {
    if (models.empty() || !request.model.empty()) return AbsentLocked(request.model);
    return InvalidArgument("invalid_value", "no model gives what is asked for").WithParam("model");
  }
  work->model = model->id;
  work->call->mutable_encode()->mutable_place()->set_model(model->id);
  work->id = next_id_++;
  work->call->set_id(work->id);
  work->encoding = std::make_shared<api::EncodingState>(std::move(waker), nullptr,
                                                        std::exchange(request.observer, nullptr));
  ++works_;
  if (Status status = Place(work); !status.ok()) {
    --works_;
    return status;
  }
  return api::Encoding(work->encoding, std::make_shared<Control>(*this, work));
}

WorkerPool::WorkRef WorkerPool::AskWorker(const WorkerRef& worker,
                                          const std::shared_ptr<v1::Call>& call) {
  auto work = std::make_shared<Work>();
  work->id = next_id_++;
  call->set_id(work->id);
  work->call = call;
  ++works_;
  Send(worker, work);
  return work;
}

Result<WorkerPool::WorkRef> WorkerPool::AskAndWait(const std::string& name,
                                                   const std::shared_ptr<v1::Call>& call) {
  const MutexLock lock(mutex_);
  const std::vector<api::ModelInfo> models = LiveModels();
  const api::ModelInfo* model =
      name.empty() ? api::DefaultGenerator(models) : api::FindModel(models, name);
  if (model == nullptr) return AbsentLocked(name);
  const auto worker = std::find_if(workers_.begin(), workers_.end(), [&](const WorkerRef& one) {
    return one->Model(model->id) != nullptr;
  });
  const WorkRef work = AskWorker(*worker, call);
  const TimePoint deadline = clock_.Now() + kPatience;
  while (!work->reply && clock_.Now() < deadline)
    changed_.WaitFor(mutex_, std::chrono::milliseconds(100));
  if (!work->reply) {
    Forget(work);
    return Unavailable("overloaded", "the worker did not answer in time");
  }
  RETURN_IF_ERROR(FromWire(work->reply->ended()));
  return work;
}

Result<api::TokenizeResult> WorkerPool::Tokenize(const api::TokenizeRequest& request) {
  auto call = std::make_shared<v1::Call>();
  ToWire(request, call->mutable_tokenize());
  ASSIGN_OR_RETURN(const WorkRef work, AskAndWait(request.model, call));
  const v1::TokenizeReply& reply = work->reply->tokenized();
  const bool pieces =
      reply.pieces_size() == reply.tokens_size() && reply.special_size() == reply.tokens_size();
  if (!pieces && (request.pieces || reply.pieces_size() + reply.special_size() > 0))
    return Nonsense();
  return FromWire(reply);
}

Result<std::string> WorkerPool::Detokenize(const api::DetokenizeRequest& request) {
  auto call = std::make_shared<v1::Call>();
  ToWire(request, call->mutable_detokenize());
  ASSIGN_OR_RETURN(const WorkRef work, AskAndWait(request.model, call));
  return work->reply->text();
}

uint64_t WorkerPool::Flush(const std::string* tenant) {
  const MutexLock lock(mutex_);
  std::vector<WorkRef> asked;
  for (const WorkerRef& worker : workers_) {
    auto call = std::make_shared<v1::Call>();
    if (tenant == nullptr) {
      call->set_flush_all(true);
    } else {
      call->set_flush_tenant(*tenant);
    }
    asked.push_back(AskWorker(worker, call));
  }
  const TimePoint deadline = clock_.Now() + kPatience;
  const auto waits = [&] {
    return std::any_of(asked.begin(), asked.end(),
                       [](const WorkRef& work) { return !work->reply; });
  };
  while (waits() && clock_.Now() < deadline)
    changed_.WaitFor(mutex_, std::chrono::milliseconds(100));
  uint64_t flushed = 0;
  for (const WorkRef& work : asked) {
    if (work->reply) flushed += work->reply->flushed();
    Forget(work);
  }
  return flushed;
}

api::LoadSnapshot WorkerPool::Load() const {
  const MutexLock lock(mutex_);
  api::LoadSnapshot sum;
  sum.level = level_.load(std::memory_order_relaxed);
  api::LoadLevel best = api::LoadLevel::kRed;  // of the workers: a request goes to the best
  for (const WorkerRef& worker : workers_) {
    const api::LoadSnapshot load = FromWire(worker->beat);
    sum.running += load.running;
    sum.waiting += load.waiting;
    sum.lanes += load.lanes;
    sum.kv_blocks_used += load.kv_blocks_used;
    sum.kv_blocks_total += load.kv_blocks_total;
    best = std::min(best, load.level);
  }
  sum.waiting += static_cast<int>(waiting_.size());
  if (!workers_.empty()) sum.level = std::max(sum.level, best);
  return sum;
}

Result<api::ModelStatistics> WorkerPool::Statistics(const std::string& name) const {
  const MutexLock lock(mutex_);
  const std::vector<api::ModelInfo> models = LiveModels();
  const api::ModelInfo* model =
      name.empty() ? api::DefaultGenerator(models) : api::FindModel(models, name);
  if (model == nullptr) return AbsentLocked(name);
  api::ModelStatistics sum;
  for (const WorkerRef& worker : workers_) {
    for (const v1::WireStatistics& one : worker->beat.statistics()) {
      if (one.model() != model->id) continue;
      sum.executions += one.executions();
      sum.items += one.items();
      sum.busy += Duration(one.busy());
    }
  }
  return sum;
}

}  // namespace tutti::remote
