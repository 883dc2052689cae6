// Job::State: one submitted request, its collected answer and, for a spawned job, the thread that
// calls its handler.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "api/token_stream.h"
#include "library/collector.h"
#include "library/waker.h"
#include "tutti/handler.h"
#include "tutti/job.h"
#include "tutti/model.h"

namespace tutti {

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
