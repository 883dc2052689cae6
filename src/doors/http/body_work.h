// Understanding a request's body where it should be understood: on the io thread while that takes
// well under a millisecond, else on a helper. For exchanges, on their thread.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <string_view>
#include <utility>

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

}  // namespace tutti::http
