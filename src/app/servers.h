// Servers: the servers of a process in front of one State: HTTP always, gRPC if a port is set. Made
// from the settings.
//
// For use by one thread; any thread may call active_requests().
#pragma once

#include <memory>
#include <string>

#include "app/config/settings.h"
#include "app/state.h"
#include "base/log.h"
#include "protocol/kserve/repository.h"
#include "server/grpc/grpc_server.h"
#include "server/http/connection/http_server.h"
#include "services/sessions/chat.h"
#include "telemetry/metrics.h"
#include "telemetry/server_metrics.h"

namespace tutti::app {

class Servers {
 public:
  struct Dependencies {  // all outlive the servers
    const Clock* clock = nullptr;
    const api::HealthProbe* health = nullptr;
    State* state = nullptr;
    std::string configured_key = {};  // of ApiKey(), or ""
    telemetry::MetricsRegistry* metrics = nullptr;
    telemetry::ServerMetrics* server_metrics = nullptr;
    Logger* log = nullptr;
    sessions::ChatOptions chat = {};  // of /v1/ws
    bool tells_cache = false;         // answers may be kept, here or by workers
  };

  // Makes the servers from the checked settings; opens no port. Errors: invalid_value (addresses,
  // the rule for non-local addresses, files).
  static Result<std::unique_ptr<Servers>> Create(const Settings& settings,
                                                 const Dependencies& dependencies);

  // Opens the ports and logs where. Errors: io_error, naming the option of the port.
  Status Start();
  std::string address() const { return http_.address(); }  // "http://127.0.0.1:8080"
  // " and grpc://127.0.0.1:8081", or nothing.
  std::string further_addresses() const;

  int active_requests() const;
  // Accepts no new connections and blocks until running requests have been answered, at most for
  // `limit`.
  void Drain(Duration limit);
  void Stop();  // ends everything now

 private:
  Servers(const http::HttpOptions& http, const rpc::GrpcOptions& grpc, bool with_grpc,
          const kserve::RepositoryOptions& repository, const Dependencies& dependencies);

  const Dependencies deps_;
  const sessions::Chat chat_;
  kserve::Repository repository_;
  http::HttpServer http_;
  std::unique_ptr<rpc::GrpcServer> grpc_;  // null: off
};

}  // namespace tutti::app
