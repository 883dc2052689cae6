// Job: one generation in progress. Destroying it cancels it.
//
// One thread reads (Next, NextFor, Join), and the job may move between threads; Cancel is for any
// thread. A job keeps its model loaded. What the model has said and nobody has read yet is kept; it
// is bounded by max_tokens.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "tutti/error.h"
#include "tutti/export.h"
#include "tutti/types.h"

namespace tutti {

enum class NextResult {
  kToken,    // a piece was written
  kTimeout,  // none came in time
  kEnd,      // there will be none: finished, failed or cancelled
};

class TUTTI_API Job {
 public:
  Job(Job&&) noexcept;
  Job& operator=(Job&&) noexcept;
  ~Job();  // a spawned job's handler is not called again; not to be run inside that handler

  // The next piece, waiting for it; nothing after the last, whatever the end was (Join tells).
  // A spawned job gives its pieces to its handler and none here.
  std::optional<Token> Next();
  NextResult NextFor(std::chrono::milliseconds timeout, Token* token);

  // No piece is yielded from now on; the model stops at its next step. Idempotent.
  void Cancel();
  bool done() const;  // the model has ended its work on it; any thread

  // Waits for the end and gives the whole answer: also the pieces that were not fetched by Next(),
  // except after Cancel(), when it holds exactly what had been yielded, with finish reason
  // kCancelled. Gives the same again.
  Expected<Completion> Join();

  struct State;  // the library's own
  explicit Job(std::shared_ptr<State> state);

 private:
  std::shared_ptr<State> state_;
};

}  // namespace tutti
