// What the handles of the public interface share: the loaded model, submitted requests, and the
// callback that wakes their readers.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "api/token_stream.h"
#include "app/config/settings.h"
#include "app/local_inference.h"
#include "base/mutex.h"
#include "gateway/served_model.h"
#include "library/convert.h"
#include "tutti/handler.h"
#include "tutti/job.h"
#include "tutti/model.h"

namespace tutti::library {

// Lets a thread of the host program wait for one or several token streams.
//
// It forwards the wakes of one stream to a WakeCount, which several streams may share, and reports
// all text of the stream as consumed at once. There is no back-pressure, because the owner of a job
// may read it at any time and max_tokens bounds its log.
class JobWaker final : public Waker {
 public:
  explicit JobWaker(std::shared_ptr<WakeCount> wakes) : wakes_(std::move(wakes)) {}

  // Sets the generation that this waker serves; it must not move until Detach().
  void Attach(api::Generation& generation) {
    const MutexLock lock(mutex_);
    generation_ = &generation;
    Take();
  }
  void Detach() {
    const MutexLock lock(mutex_);
    generation_ = nullptr;
  }
  void Wake() noexcept override {
    {
      const MutexLock lock(mutex_);
      if (generation_ != nullptr) Take();
    }
    wakes_->Raise();
  }

 private:
  void Take() REQUIRES(mutex_) { generation_->Consumed(generation_->stream().unread_bytes()); }

  const std::shared_ptr<WakeCount> wakes_;
  Mutex mutex_;
  api::Generation* generation_ GUARDED_BY(mutex_) = nullptr;
};

}  // namespace tutti::library

namespace tutti {

// The loaded model that all its handles share. Immutable after Load; any thread.
struct Model::State {
  explicit State(app::Settings resolved)
      : settings(std::move(resolved)), inference(settings, nullptr) {}

  const app::Settings settings;
  app::LocalInference inference;
  std::shared_ptr<const gateway::ServedModel> served;
  ModelInfo info;
};

// One submitted request, its collected answer and, for a spawned job, the thread that calls its
// handler.
struct Job::State {
  // Submits a request; `wakes` is raised whenever there is more to read. Errors: those that
  // Gateway::Generate returns at once.
  static Expected<std::shared_ptr<State>> Submit(const std::shared_ptr<Model::State>& model,
                                                 Request request, std::shared_ptr<WakeCount> wakes);
  State(std::shared_ptr<Model::State> owner, std::shared_ptr<WakeCount> raised, int choices);
  ~State();

  // --- the reader's thread ---
  // The next piece if there is one. nullopt: wait for `wakes` unless ended().
  std::optional<Token> Poll();
  std::optional<Token> Wait();  // blocking Poll()
  // Passes every piece to `handler` until the end. A handler that fails cancels the request; its
  // error is stored in `handler_error`.
  void Run(const TokenHandler& handler);
  Expected<Completion> Finish();  // waits for the terminal event
  bool ended() const { return collector.ended(); }

  // --- any thread ---
  void Cancel();

  const std::shared_ptr<Model::State> model;  // keeps the model loaded
  const std::shared_ptr<WakeCount> wakes;
  const std::shared_ptr<library::JobWaker> waker;
  api::Generation generation;
  std::atomic<bool> cancelled{false};

  // Used by the reader only: the runner thread while it runs, else the owner's thread.
  library::Collector collector;
  Error handler_error;

  std::thread runner;  // of a spawned job; its owner joins it
  bool spawned = false;
};

}  // namespace tutti
