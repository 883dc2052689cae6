// Shared by all connections of a server. Immutable or with its own synchronisation; any thread.
#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/mutex.h"
#include "server/http/connection/http_server.h"
#include "server/http/memory_budget.h"
#include "server/http/router.h"
#include "server/http/websocket/socket_clients.h"

namespace tutti::http {

struct ServerContext {
  ServerContext(HttpOptions server_options, const HttpServer::Dependencies& dependencies,
                bool loopback)
      : options(std::move(server_options)),
        deps(dependencies),
        router(options, loopback, AuthorityOf(dependencies)),
        hidden_key_(options.api_key) {}

  static const auth::Authenticator& AuthorityOf(const HttpServer::Dependencies& dependencies) {
    CHECK(dependencies.authority != nullptr) << "a server that asks nobody who may call";
    return *dependencies.authority;
  }

  // The configured key, which must not appear in logs. It changes at a reload.
  std::string hidden_key() const {
    const MutexLock lock(mutex_);
    return hidden_key_;
  }
  void HideKey(std::string key) {
    const MutexLock lock(mutex_);
    hidden_key_ = std::move(key);
  }

  const HttpOptions options;
  const HttpServer::Dependencies deps;
  const Router router;

  // Limit of the memory of large bodies and answers, over all connections: bounds many concurrent
  // uploads, and many long answers that clients do not read.
  MemoryBudget memory_budget{options.limits.held_bytes};

  std::atomic<int> connections{0};
  std::atomic<int> active{0};    // requests being answered
  std::atomic<int> watchers{0};  // streams of GET /admin/events
  SocketClients chat_clients;    // of /v1/ws
  std::atomic<bool> draining{false};
  LogPace handshake_lines;          // about those that failed
  std::function<void()> on_closed;  // a connection has ended: accepting may continue

  // The helper threads, one each, for what takes longer than an io thread may: large JSON; large
  // tokenizer requests, which can take a second and must not hold up the former; large answers of
  // encoders and to KServe's clients, which wait for neither.
  boost::asio::thread_pool json_helper{1}, tokenizer_helper{1}, answer_helper{1};

 private:
  mutable Mutex mutex_;
  std::string hidden_key_ GUARDED_BY(mutex_);
};

}  // namespace tutti::http
