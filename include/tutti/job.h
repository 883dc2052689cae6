// Job: one generation in progress. Destroying it cancels it.
//
// One thread at a time may call Next, NextFor and Join; any thread may call Cancel. A job keeps its
// model loaded. Generated pieces are kept until they are read; max_tokens bounds their memory.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "tutti/error.h"
#include "tutti/export.h"
#include "tutti/types.h"

namespace tutti {

enum class NextResult {
  kToken,    // a piece was stored in *token
  kTimeout,  // no piece arrived in time
  kEnd,      // no piece will follow: finished, failed or cancelled
};

class TUTTI_API Job {
 public:
  Job(Job&&) noexcept;
  Job& operator=(Job&&) noexcept;
  ~Job();  // a spawned job's handler is not called again; must not run inside that handler

  // Blocks for the next piece. nullopt: the generation has ended; Join() returns the result or the
  // error. A spawned job passes its pieces to its handler and none to this function.
  std::optional<Token> Next();
  NextResult NextFor(std::chrono::milliseconds timeout, Token* token);

  // Cancels the generation: no more pieces are returned, and the model stops at its next step.
  // Idempotent.
  void Cancel();
  bool done() const;  // the model has finished the job; any thread
  // Waits until done() or a cancel; false at the timeout. Takes no piece.
  bool WaitFor(std::chrono::milliseconds timeout) const;

  // Blocks until the end and returns the complete answer, including pieces that Next() has not
  // returned. After Cancel() the answer holds only the pieces returned before, with finish reason
  // kCancelled. Further calls return the same.
  Expected<Completion> Join();

  struct State;  // internal
  explicit Job(std::shared_ptr<State> state);

 private:
  std::shared_ptr<State> state_;
};

}  // namespace tutti
