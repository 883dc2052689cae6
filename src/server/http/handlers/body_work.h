// Work on bodies, on the I/O thread if that takes well under a millisecond, else on a helper
// thread: parses the body of a request; makes the body of a long answer, with its share of the
// server's memory. Called by handlers, on their thread.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "base/status.h"
#include "server/http/connection/connection.h"
#include "server/http/connection/response.h"
#include "server/http/memory_budget.h"

namespace tutti::http {

// Size up to which the I/O thread parses JSON itself.
inline constexpr size_t kInlineJsonBytes = 16 << 10;

// Runs `work` on `helper`, then `then` with its result here, unless the handler has ended. `work`
// must not refer to the handler.
template <typename Work, typename Then>
void OnHelper(Connection& connection, boost::asio::thread_pool& helper, Work work, Then then) {
  connection.Offload(helper, [work, then]() -> Connection::Continuation {
    auto made = std::make_shared<decltype(work())>(work());
    return [then, made] { then(std::move(*made)); };
  });
}

// Passes the body to `work`, and its result to `then`. If the body has at most `inline_bytes`, both
// run here; otherwise `work` runs on `helper` and, unless the handler has ended, `then` runs here.
// `work` must not refer to the handler. Unless the body was small, it and its share of the
// server's memory are released before `then`.
template <typename Work, typename Then>
void WithBody(Connection& connection, size_t inline_bytes, boost::asio::thread_pool& helper,
              Work work, Then then) {
  if (connection.request().body.size() <= inline_bytes) {
    const Connection::Body body = connection.TakeBody();
    return then(work(std::string_view(body.text)));
  }
  auto body = std::make_shared<Connection::Body>(connection.TakeBody());
  const auto release = [body, work] {
    auto understood = work(std::string_view(body->text));
    *body = {};
    return understood;
  };
  OnHelper(connection, helper, release, std::move(then));
}

// Hands over a value that another thread may deliver before or after the receiver stops waiting.
template <typename T>
class Handover {
 public:
  // Delivers the value. Returns nothing if the receiver will take it; returns the value if the
  // receiver has already left.
  std::optional<T> Deliver(T value) {
    const MutexLock lock(mutex_);
    if (left_) return value;
    value_ = std::move(value);
    return std::nullopt;
  }
  // Stops waiting; returns the value if it was delivered.
  std::optional<T> Leave() {
    const MutexLock lock(mutex_);
    left_ = true;
    return std::move(value_);
  }

 private:
  Mutex mutex_;
  bool left_ GUARDED_BY(mutex_) = false;
  std::optional<T> value_ GUARDED_BY(mutex_);
};

// WithBody() for work whose answer may come later (api::Inference::TokenizeLater()). `work(body,
// done)` passes a function that makes its result to `done`, once, on any thread. If that happens
// before `work` returns, the result is made there; if later, on `helper`, so that the thread that
// answers is not held up.
template <typename Made, typename Work, typename Then>
void AskWithBody(Connection& connection, size_t inline_bytes, boost::asio::thread_pool& helper,
                 Work work, Then then) {
  using Make = std::function<Made()>;
  const auto later = connection.Later(
      [&connection, &helper, then](const Make& make) { OnHelper(connection, helper, make, then); });
  WithBody(
      connection, inline_bytes, helper,
      [work, later](std::string_view body) -> std::optional<Made> {
        const auto handover = std::make_shared<Handover<Make>>();
        work(body, [handover, later](Make make) {
          if (std::optional<Make> mine = handover->Deliver(std::move(make)))
            later(*std::move(mine));
        });
        const std::optional<Make> make = handover->Leave();
        if (!make.has_value()) return std::nullopt;
        return (*make)();
      },
      [then](std::optional<Made> made) {
        if (made.has_value()) then(*std::move(made));
      });
}

// The error for an answer of `bytes` bytes, for which there is no memory.
Status NoRoomForAnswer(size_t bytes, const MemoryBudget& budget);

// The body of a long answer with its share of the server's memory, which is reserved before the
// body is made. One thread at a time; may move.
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
  OnHelper(connection, connection.context().answer_helper, std::move(work), std::move(then));
}

}  // namespace tutti::http
