// WorkerPool: api::Inference whose models are in other processes. The front's doors and services
// ask it as they would ask a gateway; it gives each request to a worker and writes what comes back.
//
// A worker's connection (front_port.h) attaches it, hands in what it says and takes what is to be
// said. Of one worker Receive() and Lost() are called by one thread at a time, and that thread
// writes the streams of the requests that the worker has; all else is for any thread. Only
// Tokenize(), Detokenize() and Flush() wait for a worker, as long as they are told to; answers to
// TokenizeLater() and DetokenizeLater() are told by the threads of workers' connections, and by the
// one that calls Look() where there was none in time.
//
// What becomes of a request whose worker dies is decided in Lost(): it is done again by another
// worker that gives the same bits, from where its reader stands, or ends with worker_lost. A
// question is asked again of one other worker.
#pragma once

#include <tutti/v1/worker.pb.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/inference.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "remote/known_models.h"
#include "remote/suspects.h"

namespace tutti::remote {

class WorkerPool final : public api::Inference {
 public:
  // Of Flush().
  static constexpr Duration kPatience = std::chrono::seconds(2);
  // Who has said nothing for so long is asked no questions: nobody waits for it again and again.
  static constexpr Duration kUnheard = std::chrono::seconds(3);
  // Questions that are not yet answered, and their bytes; more are refused (overloaded). One of any
  // size is asked where there is no other.
  static constexpr size_t kMostQuestions = 1024, kMostQuestionBytes = 64 << 20;
  // A worker says something at least every kBeat; one that is silent for so long is given up.
  static constexpr Duration kBeat = std::chrono::seconds(1);
  static constexpr Duration kSilence = std::chrono::seconds(15);
  // A stream whose reader is behind by that much is left at the worker until it is not.
  static constexpr size_t kPauseBytes = 256 << 10, kResumeBytes = 64 << 10;
  // Prompts of at least that much go where their beginning went before, if that worker is not much
  // busier than others.
  static constexpr size_t kAffinityBytes = 1024;

  // The way to one worker. Any thread; neither call calls back.
  class Connection {
   public:
    virtual ~Connection() = default;
    virtual void Wake() = 0;   // TakeMessage() has something
    virtual void Close() = 0;  // Lost() follows
  };
  class Worker;  // one that is attached
  using WorkerRef = std::shared_ptr<Worker>;

  struct Figures {
    int workers = 0, draining = 0;
    uint64_t lost = 0;                 // workers whose connection ended while they had work
    uint64_t resumed = 0, failed = 0;  // requests of those
    uint64_t quarantined = 0;
  };

  // `clock` and `log` (may be null) outlive it. `level`: of this process; requests are admitted by
  // it.
  WorkerPool(const Clock& clock, const std::atomic<api::LoadLevel>& level, Logger* log);
  ~WorkerPool() override;

  // --- the connection's side ---
  // Errors: a worker that is not taken, and why.
  Result<WorkerRef> Attach(const v1::Hello& hello, std::shared_ptr<Connection> connection);
  void Receive(const WorkerRef& worker, const v1::WorkerMessage& message);
  // What the worker is to be told; false: nothing.
  bool TakeMessage(const WorkerRef& worker, v1::FrontMessage* message);
  // What ended: the worker; the way to it alone; or it is not known, as nothing is heard of it.
  // Only in the first case is what it had under suspicion. In the last a request goes on elsewhere
  // kMostMoves times, as it may be what makes workers silent.
  enum class Ended : uint8_t { kWorker, kWay, kSilence };
  static constexpr int kMostMoves = 2;
  void Lost(const WorkerRef& worker, Ended ended = Ended::kWorker);
  // Now and then: readers that have caught up, workers that are silent, deadlines of what waits.
  void Look();
  bool wants_look_soon() const {
    return paused_.load(std::memory_order_relaxed) > 0 ||
           questions_.load(std::memory_order_relaxed) > 0;
  }

  // --- the owner's ---
  void BeginDrain();
  // Waits for what runs; then the connections are closed, and what was left ends with `draining`.
  bool Drain(Duration limit);
  Status started() const;  // a worker has come
  Status ready() const;    // one takes requests
  Figures figures() const;
  // Of kept answers at all workers. How many went.
  uint64_t Flush(const std::string* tenant);

  // --- api::Inference ---
  Result<api::Generation> Generate(api::GenerateRequest request,
                                   std::shared_ptr<api::StreamWaker> waker) override;
  Result<api::Encoding> Encode(api::EncodeRequest request,
                               std::shared_ptr<api::StreamWaker> waker) override;
  // A request's patience is kept to within a second, as Look() is called.
  Result<api::TokenizeResult> Tokenize(const api::TokenizeRequest& request) override;
  Result<std::string> Detokenize(const api::DetokenizeRequest& request) override;
  void TokenizeLater(api::TokenizeRequest request, Done<api::TokenizeResult> done) override;
  void DetokenizeLater(api::DetokenizeRequest request, Done<std::string> done) override;
  std::vector<api::ModelInfo> Models() const override;
  api::LoadSnapshot Load() const override;
  Result<api::ModelStatistics> Statistics(const std::string& model) const override;

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
  // Gives it to a worker, or leaves it among those that wait for their trial. Where there are
  // suspects it has its print. Errors: queue_full, request_quarantined, those of absence.
  Status Place(const WorkRef& work) REQUIRES(mutex_);
  WorkerRef Choose(const Work& work) const REQUIRES(mutex_);
  void Send(const WorkerRef& worker, const WorkRef& work) REQUIRES(mutex_);
  void EndTrial(const WorkerRef& worker) REQUIRES(mutex_);
  void Forget(const WorkRef& work) REQUIRES(mutex_);
  void Cancel(const WorkRef& work);
  void Apply(const WorkerRef& worker, const v1::Update& update,
             std::vector<std::shared_ptr<api::StreamWaker>>* wakers);

  // lost_worker.cc
  // Whether it can be done again from where its reader stands.
  bool MayGoOn(const Work& work, const Worker& died) const REQUIRES(mutex_);
  // It goes on at another worker: OK; else how it ends.
  Status AfterLoss(const WorkRef& work, Worker& died, bool was_on_trial, Ended what)
      REQUIRES(mutex_);

  // questions.cc
  void Ask(const std::string& model, std::shared_ptr<v1::Call> call, Duration patience, Told told);
  Status AskOne(const QuestionRef& question, const std::string& model);
  WorkerRef ChooseToAsk(const std::string& model) const REQUIRES(mutex_);
  void Begin(const WorkerRef& worker, const QuestionRef& question) REQUIRES(mutex_);
  void Send(const WorkerRef& worker, const QuestionRef& question) REQUIRES(mutex_);
  void Forget(const QuestionRef& question) REQUIRES(mutex_);
  // Another worker is asked what this one was; false: there is none.
  bool AskAnother(const QuestionRef& question) REQUIRES(mutex_);
  void EndLateQuestions();

  // pool_state.cc
  std::vector<api::ModelInfo> LiveModels() const REQUIRES(mutex_);
  Status Absent(const std::string& model) const;
  Status AbsentLocked(const std::string& model) const REQUIRES(mutex_);

  const Clock& clock_;
  const std::atomic<api::LoadLevel>& level_;
  Logger* const log_;
  std::atomic<bool> draining_{false}, closed_{false};
  std::atomic<int> paused_{0};
  std::atomic<size_t> questions_{0};  // changed under the mutex
  mutable Mutex mutex_;
  CondVar changed_;  // the last work has gone
  std::vector<WorkerRef> workers_ GUARDED_BY(mutex_);
  bool any_came_ GUARDED_BY(mutex_) = false;
  KnownModels known_ GUARDED_BY(mutex_);
  std::deque<WorkRef> waiting_ GUARDED_BY(mutex_);  // for their trial
  Suspects suspects_ GUARDED_BY(mutex_);
  Figures figures_ GUARDED_BY(mutex_);
  uint64_t next_id_ GUARDED_BY(mutex_) = 1;
  size_t works_ GUARDED_BY(mutex_) = 0;  // with a worker, or waiting; and questions
  size_t question_bytes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace tutti::remote
