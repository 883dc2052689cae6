// HeldAnswer: the body of a long answer with its share of the server's memory, which is reserved
// before the body is made. Also decides where the body is made: on this thread if that takes well
// under a millisecond, else on the helper for answers.
//
// One thread at a time; may move. For handlers.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "server/http/connection/connection.h"
#include "server/http/connection/response.h"
#include "server/http/memory_budget.h"

namespace tutti::http {

class HeldAnswer {
 public:
  HeldAnswer() = default;
  explicit HeldAnswer(MemoryBudget* budget) : budget_(budget), share_(budget) {}

  // Before: counts what is held while the body is made, about. Errors: as NoRoomForAnswer().
  Status Reserve(size_t bytes);
  // After: the body is held, and counts instead. Errors: as above.
  Status Keep(std::string body);

  // The answer; what it counts is given back when it has left.
  void Send(Connection& connection, HeaderList headers) &&;

 private:
  MemoryBudget* budget_ = nullptr;
  BudgetShare share_;
  std::string body_;
};

// Passes the result of `work` to `then`: both run here, or `work` runs on the helper and, unless
// the handler has ended, `then` here. `work` is copied, and must not refer to the handler.
template <typename Work, typename Then>
void WithAnswer(Connection& connection, bool here, Work work, Then then) {
  if (here) return then(work());
  connection.Offload(connection.context().answer_helper,
                     [work, then]() -> Connection::Continuation {
                       auto answer = std::make_shared<decltype(work())>(work());
                       return [then, answer] { then(std::move(*answer)); };
                     });
}

}  // namespace tutti::http
