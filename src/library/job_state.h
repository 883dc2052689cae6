// Job::State: one submitted request, its record and, where it was spawned, the thread that runs its
// handler.
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
  // Submits; `signal` is raised whenever there is more to read. Errors: what the gateway refuses at
  // once.
  static Expected<std::shared_ptr<State>> Submit(const std::shared_ptr<Model::State>& model,
                                                 Request request, std::shared_ptr<WakeCount> wakes);
  State(std::shared_ptr<Model::State> owner, std::shared_ptr<WakeCount> raised, int choices);
  ~State();

  // --- the reader's thread ---
  // The next piece if there is one. None: wait for the signal unless ended().
  std::optional<Token> Poll();
  std::optional<Token> Wait();  // Poll, waiting
  // Feeds every piece to `handler` until the end; a failing handler cancels and leaves its error in
  // `handler_error`.
  void Run(const TokenHandler& handler);
  Expected<Completion> Finish();  // waits for the terminal event
  bool ended() const { return collector.ended(); }

  // --- any thread ---
  void Cancel();

  const std::shared_ptr<Model::State> model;  // keeps what follows alive
  const std::shared_ptr<WakeCount> wakes;
  const std::shared_ptr<library::JobWaker> waker;
  api::Generation generation;
  std::atomic<bool> cancelled{false};

  // The reader's: the spawned thread's while it runs.
  library::Collector collector;
  Error handler_error;

  std::thread runner;  // of a spawned job; its owner joins it
  bool spawned = false;
};

}  // namespace tutti
