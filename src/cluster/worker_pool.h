// WorkerPool: api::Inference whose models run in other processes (workers). The servers and
// services of the frontend call it as they would call a gateway; it gives each request to a worker
// and writes the worker's output to the request's stream.
//
// A worker's connection (frontend_port.h) attaches the worker, passes in its messages and fetches
// the messages for it. Receive() and Lost() of one worker are called by one thread at a time, and
// that thread writes the streams of that worker's requests; all other calls may come from any
// thread. Only Tokenize(), Detokenize() and Flush() wait for a worker, with a time limit. The
// callbacks of TokenizeLater() and DetokenizeLater() run on the threads of the workers'
// connections, or on the thread that calls Look() if no answer came in time.
//
// Lost() decides about the requests of a dead worker: each is computed again by another worker that
// gives the same bits, and continues where its reader stands; otherwise it ends with worker_lost. A
// question is sent once more, to another worker.
#pragma once

#include <tutti/v1/worker.pb.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/inference.h"
#include "api/live_state.h"
#include "api/model_control.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "cluster/placement.h"

namespace tutti::cluster {

class WorkerPool final : public api::Inference, public api::ModelControl {
 public:
  // Time limit of Flush().
  static constexpr Duration kPatience = std::chrono::seconds(2);
  // A worker that has been silent for this time gets no questions, so that callers do not wait for
  // it again and again.
  static constexpr Duration kUnheard = std::chrono::seconds(3);
  // Maximum number and bytes of unanswered questions; more are refused (overloaded). A single
  // question may have any size.
  static constexpr size_t kMaxQuestions = 1024, kMaxQuestionBytes = 64 << 20;
  // Maximum number of questions that wait until a worker has loaded their model, which may take
  // minutes: those that are answered at once always have places.
  static constexpr size_t kMaxLoadingQuestions = kMaxQuestions / 2;
  // A worker sends a message at least every kBeat; one that is silent for kSilence is treated as
  // lost.
  static constexpr Duration kBeat = std::chrono::seconds(1);
  static constexpr Duration kSilence = std::chrono::seconds(15);
  // A stream whose reader is behind by kPauseBytes is paused at the worker, until it is behind by
  // kResumeBytes.
  static constexpr size_t kPauseBytes = 256 << 10, kResumeBytes = 64 << 10;
  // Prompts of at least this size prefer the worker that had the same beginning (placement.h).
  static constexpr size_t kAffinityBytes = 1024;

  // The connection to one worker. Any thread; neither call calls back into the pool.
  class Connection {
   public:
    virtual ~Connection() = default;
    virtual void Wake() = 0;   // TakeMessage() has something
    virtual void Close() = 0;  // Lost() follows
  };
  class Worker;  // an attached worker
  using WorkerRef = std::shared_ptr<Worker>;

  struct Figures {
    int workers = 0, draining = 0;
    uint64_t lost = 0;                 // workers whose connection ended while they had work
    uint64_t resumed = 0, failed = 0;  // requests of lost workers
    uint64_t quarantined = 0;
    // Models by api::ModelState; each counts once, in its best state at any worker.
    std::array<int, 5> models = {};
    int64_t memory_bytes = 0, memory_budget_bytes = 0;  // sums over all workers
  };

  // `clock` and `log` (may be null) outlive the pool. `level`: load level of this process; it
  // decides which requests are admitted.
  WorkerPool(const Clock& clock, const std::atomic<api::LoadLevel>& level, Logger* log);
  ~WorkerPool() override;

  // Errors: the worker is refused, with the reason: another protocol, or a pinned model that an
  // attached worker serves under the same name with another digest. It may try again later. Of the
  // models that come and go, such a model alone is refused, until the other worker has gone.
  Result<WorkerRef> Attach(const v1::Hello& hello, std::shared_ptr<Connection> connection);
  void Receive(const WorkerRef& worker, const v1::WorkerMessage& message);
  // Fetches the next message for the worker; false: there is none.
  bool TakeMessage(const WorkerRef& worker, v1::FrontendMessage* message);
  // The cause of a loss: the worker ended; only the connection ended; or unknown, because nothing
  // is heard. Only kWorker makes the worker's requests suspects. After kSilence a request moves to
  // another worker at most kMaxMoves times, because the request itself may be what makes workers
  // silent.
  enum class Ended : uint8_t { kWorker, kWay, kSilence };
  static constexpr int kMaxMoves = 2;
  void Lost(const WorkerRef& worker, Ended ended = Ended::kWorker);
  // Called periodically: resumes streams whose readers have caught up, and checks for silent
  // workers and expired deadlines.
  void Look();
  bool wants_look_soon() const {
    return paused_.load(std::memory_order_relaxed) > 0 ||
           questions_.load(std::memory_order_relaxed) > 0;
  }

  // --- the owner's ---
  void BeginDrain();
  // Waits up to `limit` for running requests; then closes the connections and ends the remaining
  // requests with `draining`.
  bool Drain(Duration limit);
  Status started() const;  // OK once a worker has attached
  Status ready() const;    // OK while a worker takes requests
  Figures figures() const;
  void ListWorkers(api::LiveState* state) const;  // its workers, and how many are left out
  // Deletes kept answers at all workers, of one tenant or of all (null). Returns the number of
  // deleted answers; waits up to kPatience.
  uint64_t Flush(const std::string* tenant);

  // --- api::Inference ---
  using api::Inference::Done;  // hides that of api::ModelControl
  Result<api::Generation> Generate(api::GenerateRequest request,
                                   std::shared_ptr<Waker> waker) override;
  Result<api::Encoding> Encode(api::EncodeRequest request, std::shared_ptr<Waker> waker) override;
  // A request's patience is kept to within a second, the interval of Look(). TokenizeLater() and
  // DetokenizeLater() wait for a model that must be loaded first, as requests that generate do.
  Result<api::TokenizeResult> Tokenize(const api::TokenizeRequest& request) override;
  Result<std::string> Detokenize(const api::DetokenizeRequest& request) override;
  void TokenizeLater(api::TokenizeRequest request, Done<api::TokenizeResult> done) override;
  void DetokenizeLater(api::DetokenizeRequest request, Done<std::string> done) override;
  api::ModelList Models() const override;
  api::LoadSnapshot Load() const override;
  Result<api::ModelStatistics> Statistics(const std::string& model) const override;

  // --- api::ModelControl ---
  // A load goes to the worker that can serve the model soonest; an unload, and a keep_alive, to all
  // that have it. A worker that is lost has unloaded its models. Loads of one model that run at the
  // same time are one question to the worker; at most kMaxLoads calls wait, for
  // kMaxLoadingModels models (queue_full).
  static constexpr size_t kMaxLoads = 1024, kMaxLoadingModels = 256;
  static constexpr Duration kLoadPatience = std::chrono::minutes(10);
  void Load(const std::string& model, ModelControl::Done done) override;
  void Unload(const std::string& model, ModelControl::Done done) override;
  void KeepAlive(const std::string& model, Duration keep_alive) override;
  void Rescan() override;

 private:
  struct Work;
  struct Question;
  using WorkRef = std::shared_ptr<Work>;
  using QuestionRef = std::shared_ptr<Question>;
  using Told = std::function<void(Result<v1::Update>)>;
  class Control;

  // worker_pool.cc: requests.
  Status Refusal(api::Priority priority) const;
  Status Begin(const WorkRef& work);
  // Assigns `work` to a worker, or adds it to those that wait for their trial. While there are
  // suspects, `work` must have its fingerprint. Errors: queue_full, request_quarantined, those of
  // Absent().
  Status Place(const WorkRef& work) REQUIRES(mutex_);
  WorkerRef Choose(const Work& work) const REQUIRES(mutex_);
  // Whether `model` of `worker` has the files that other workers serve under its name.
  Status CheckSameFiles(const Worker& worker, const api::ModelInfo& model) const REQUIRES(mutex_);
  // Updates which models of the worker are refused.
  void RefuseOtherFiles(Worker& worker) REQUIRES(mutex_);
  // The same for all workers that have such models, after another worker has changed.
  void ReconsiderRefused() REQUIRES(mutex_);
  // Takes what a message with a heartbeat says about the worker's models.
  void TakeModels(const WorkerRef& worker, const v1::WorkerMessage& message) REQUIRES(mutex_);
  // Logs that `worker` is about to be given something for a model that it must load first.
  void NotePlacement(const Worker& worker, const std::string& model) REQUIRES(mutex_);
  void Send(const WorkerRef& worker, const WorkRef& work) REQUIRES(mutex_);
  void EndTrial(const WorkerRef& worker) REQUIRES(mutex_);
  void Forget(const WorkRef& work) REQUIRES(mutex_);
  void Cancel(const WorkRef& work);
  void Apply(const WorkerRef& worker, const v1::Update& update,
             std::vector<std::shared_ptr<Waker>>* wakers);

  // Whether another worker can compute `work` again and continue where its reader stands.
  bool MayGoOn(const Work& work, const Worker& died) const REQUIRES(mutex_);
  // OK if `work` continues at another worker; otherwise the status with which it ends.
  Status AfterLoss(const WorkRef& work, Worker& died, bool was_on_trial, Ended what)
      REQUIRES(mutex_);

  // questions.cc
  void AskTokens(const api::TokenizeRequest& request, bool loads, Done<api::TokenizeResult> done);
  void AskText(const api::DetokenizeRequest& request, bool loads, Done<std::string> done);
  // `loads`: if the worker must load the model first, the question waits for that.
  void Ask(const std::string& model, std::shared_ptr<v1::Call> call, Duration patience, bool loads,
           Told told);
  Status AskOne(const QuestionRef& question, const std::string& model, bool loads);
  WorkerRef ChooseToAsk(const std::string& model) const REQUIRES(mutex_);
  void Begin(const WorkerRef& worker, const QuestionRef& question) REQUIRES(mutex_);
  void Send(const WorkerRef& worker, const QuestionRef& question) REQUIRES(mutex_);
  void Forget(const QuestionRef& question) REQUIRES(mutex_);
  // Sends the question to another worker; false: there is none.
  bool AskAnother(const QuestionRef& question) REQUIRES(mutex_);
  void EndLateQuestions();
  // A question to one worker alone.
  void AskWorker(const WorkerRef& worker, std::shared_ptr<v1::Call> call, Duration patience,
                 Told told) REQUIRES(mutex_);

  // model_control.cc
  // Ends loads and unloads: a drain does not wait for them.
  void EndControl();
  void EndLoads(const std::string& model, const Status& status);

  // pool_state.cc
  // Shared until a worker comes, goes, or says something new of its models.
  api::ModelList LiveModels() const REQUIRES(mutex_);
  Status Absent(const std::string& model) const;
  Status AbsentLocked(const std::string& model) const REQUIRES(mutex_);

  const Clock& clock_;
  const std::atomic<api::LoadLevel>& level_;
  Logger* const log_;
  std::atomic<bool> draining_{false}, closed_{false};
  std::atomic<int> paused_{0};
  std::atomic<size_t> questions_{0};  // changed under the mutex
  mutable Mutex mutex_;
  CondVar changed_;  // signals that the last request has ended
  std::vector<WorkerRef> workers_ GUARDED_BY(mutex_);
  bool any_came_ GUARDED_BY(mutex_) = false;
  KnownModels known_ GUARDED_BY(mutex_);
  mutable std::optional<api::ModelList> live_models_ GUARDED_BY(mutex_);
  std::deque<WorkRef> waiting_ GUARDED_BY(mutex_);  // waiting for their trial
  Suspects suspects_ GUARDED_BY(mutex_);
  Figures figures_ GUARDED_BY(mutex_);
  uint64_t next_id_ GUARDED_BY(mutex_) = 1;
  size_t works_ GUARDED_BY(mutex_) = 0;  // requests with a worker or waiting, and questions
  size_t question_bytes_ GUARDED_BY(mutex_) = 0;
  size_t loading_questions_ GUARDED_BY(mutex_) = 0;
  // Calls of Load() by model; the first of each has asked a worker.
  std::map<std::string, std::vector<ModelControl::Done>> loads_ GUARDED_BY(mutex_);
};

}  // namespace tutti::cluster
