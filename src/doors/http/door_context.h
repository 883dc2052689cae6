// What all connections of a door share. Immutable or with its own synchronisation; any thread.
#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <functional>

#include "base/mutex.h"
#include "doors/http/http_door.h"
#include "doors/http/router.h"

namespace tutti::http {

struct DoorContext {
  DoorContext(HttpOptions door_options, const HttpDoor::Dependencies& dependencies, bool loopback)
      : options(std::move(door_options)), deps(dependencies), router(options, loopback) {}

  const HttpOptions options;
  const HttpDoor::Dependencies deps;
  const Router router;

  // Bodies held in memory, over all connections; bounds what many large uploads together may take.
  static constexpr int64_t kBodyBudget = 256 << 20;
  std::atomic<int64_t> body_bytes{0};

  std::atomic<int> connections{0};
  std::atomic<int> active{0};  // requests being answered
  std::atomic<bool> draining{false};
  std::function<void()> on_closed;  // a connection is gone: accepting may go on

  // One thread for what takes longer than an io thread may: large JSON, tokenising on request.
  boost::asio::thread_pool worker{1};
};

}  // namespace tutti::http
