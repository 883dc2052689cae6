// Understanding a request's body where it should be understood: on the io thread while that takes
// well under a millisecond, else on a helper. For exchanges, on their thread.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "doors/http/connection.h"

namespace tutti::http {

// Gives the body to `work` and what that returns to `then`; both here if the body has at most
// `inline_bytes`, otherwise `work` on `helper` and, unless the exchange has ended, `then` here.
// `work` must not refer to the exchange. The body and its share of the door's memory are gone
// before `then`, unless it was small.
template <typename Work, typename Then>
void WithBody(Connection& connection, size_t inline_bytes, boost::asio::thread_pool& helper,
              Work work, Then then) {
  if (connection.request().body.size() <= inline_bytes) {
    const Connection::Body body = connection.TakeBody();
    return then(work(std::string_view(body.text)));
  }
  auto body = std::make_shared<Connection::Body>(connection.TakeBody());
  connection.Offload(helper, [body, work, then]() -> Connection::Continuation {
    using Understood = decltype(work(std::string_view()));
    auto understood = std::make_shared<Understood>(work(std::string_view(body->text)));
    *body = {};
    return [then, understood] { then(std::move(*understood)); };
  });
}

// What is told by whatever thread, and whether that was before somebody stopped waiting for it.
template <typename Told>
class Meeting {
 public:
  // Nothing: who waits takes it.
  std::optional<Told> Tell(Told told) {
    const MutexLock lock(mutex_);
    if (left_) return told;
    told_ = std::move(told);
    return std::nullopt;
  }
  // What has been told; from now on it is not waited for.
  std::optional<Told> Leave() {
    const MutexLock lock(mutex_);
    left_ = true;
    return std::move(told_);
  }

 private:
  Mutex mutex_;
  bool left_ GUARDED_BY(mutex_) = false;
  std::optional<Told> told_ GUARDED_BY(mutex_);
};

// As WithBody(), for work that asks who may answer later (api::Inference::TokenizeLater()):
// `work(body, done)` gives what makes its result to `done`, once, on any thread. Where that is
// before it returns, the result is made there; later, on `helper`: who answers is kept from nothing
// else.
template <typename Made, typename Work, typename Then>
void AskWithBody(Connection& connection, size_t inline_bytes, boost::asio::thread_pool& helper,
                 Work work, Then then) {
  using Make = std::function<Made()>;
  const auto later = [here = connection.Return(), &connection, &helper, then](Make make) {
    const auto shared = std::make_shared<Make>(std::move(make));  // with what was said
    here([&connection, &helper, then, shared] {
      connection.Offload(helper, [then, shared]() -> Connection::Continuation {
        auto made = std::make_shared<Made>((*shared)());
        return [then, made] { then(std::move(*made)); };
      });
    });
  };
  WithBody(
      connection, inline_bytes, helper,
      [work, later](std::string_view body) -> std::optional<Made> {
        const auto meeting = std::make_shared<Meeting<Make>>();
        work(body, [meeting, later](Make make) {
          if (std::optional<Make> mine = meeting->Tell(std::move(make))) later(*std::move(mine));
        });
        const std::optional<Make> make = meeting->Leave();
        if (!make.has_value()) return std::nullopt;
        return (*make)();
      },
      [then](std::optional<Made> made) {
        if (made.has_value()) then(*std::move(made));
      });
}

}  // namespace tutti::http
