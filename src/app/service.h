// Everything in a serving process except the models: its servers (Servers), and with them stored
// state, watchdogs and their shutdown (Service). The caller provides the model side (Backend).
//
// For use by one thread, except where a member allows more.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/live_state.h"
#include "api/request_trace.h"
#include "app/backend.h"
#include "app/caches.h"
#include "app/config/settings.h"
#include "app/config_reload.h"
#include "app/live_report.h"
#include "app/mqtt/mqtt_servers.h"
#include "app/process/memory.h"
#include "app/service_metrics.h"
#include "app/state.h"
#include "app/store.h"
#include "app/trace_export.h"
#include "base/log.h"
#include "base/status.h"
#include "protocol/kserve/repository.h"
#include "server/grpc/grpc_server.h"
#include "server/http/connection/http_server.h"
#include "services/sessions/chat.h"
#include "telemetry/metrics.h"
#include "telemetry/recent_errors.h"
#include "telemetry/server_metrics.h"

namespace tutti::app {

// The servers of a process in front of one State: HTTP always, gRPC if a port is set. Made from the
// settings. Any thread may call active_requests().
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
    sessions::ChatOptions chat = {};          // of /v1/ws
    bool tells_cache = false;                 // answers may be kept, here or by workers
    api::AdapterControl* adapters = nullptr;  // as Backend::adapters()
    api::ModelControl* control = nullptr;     // as Backend::control()
    api::ModelLibrary* library = nullptr;     // as Backend::library()
    api::LiveSource* live = nullptr;          // a LiveReport
    api::RequestTraces* traces = nullptr;
    telemetry::RecentErrors* errors = nullptr;
    std::function<Result<http::ReloadReport>()> reload = {};  // as HttpServer's
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

  // Checks other settings for the servers, and reads the TLS files. The result applies what
  // PrepareReload() of HttpServer and GrpcServer says. `has_keys`: whether credentials exist with
  // these settings. Errors: as Create().
  Result<std::function<void()>> PrepareReload(const Settings& settings, const std::string& key,
                                              bool has_keys);

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

class Service {
 public:
  // Checks the settings and opens the store, but no port. `caches`: those that the models use. All
  // other arguments must outlive it. Errors: those of ApiKey, State::Open, Servers::Create and
  // MqttServers::Create.
  static Result<std::unique_ptr<Service>> Create(const Settings& settings, Backend& backend,
                                                 Caches caches, telemetry::MetricsRegistry& metrics,
                                                 Logger& log);

  State& state() { return *state_; }
  MemoryWatch& memory() { return memory_; }

  bool IsAlias(std::string_view name) const;  // any thread
  // The models that [[alias]] tables may name; without it, any. Call it before Start().
  void CheckAliasesAgainst(std::function<std::vector<std::string>()> served) {
    reload_->CheckAliasesAgainst(std::move(served));
  }
  // Called after each reload that was applied. Call this before Start().
  void AfterReload(std::function<void()> done) { reload_->AfterReload(std::move(done)); }
  // Reads the configuration again. Any thread. Errors: as ConfigReload::Run().
  Result<http::ReloadReport> Reload() { return reload_->Run(); }

  // Opens the ports. The HTTP port answers health probes from now on.
  Status Start();
  // Prints the address of `model` and its summary to standard output. Any thread.
  void Announce(const std::string& model, const std::string& summary);
  // Resumes requests that the previous process accepted but did not answer. Called once, after the
  // models are loaded. Any thread.
  void Resume();

  // Reloads at SIGHUP. Waits for a signal that ends the process and returns its number, or 0 when
  // `stop` is set first. Calls `look` periodically; it may be null.
  int WaitForSignal(const std::atomic<bool>& stop, const std::function<void()>& look = nullptr);
  // Waits up to the configured limit for running requests, then ends the rest. Calls `abandon` to
  // stop the loading of models. A second signal ends the process at once.
  void Drain(int signal, const std::function<void()>& abandon);
  // Ends everything now.
  void Stop() { servers_->Stop(); }

 private:
  Service(const Settings& settings, Backend& backend, telemetry::MetricsRegistry& metrics,
          Logger& log, std::unique_ptr<State> state);
  bool DrainAndStop(double limit_s, const std::function<void()>& abandon);

  const Settings& settings_;
  Backend& backend_;
  Logger& log_;
  telemetry::ServerMetrics server_metrics_;
  const std::shared_ptr<api::RequestTraces> traces_ = std::make_shared<api::RequestTraces>();
  // Declared before the servers, so that it sends the traces of their last requests.
  std::unique_ptr<traces::Exporter> exporter_;  // null: traces.endpoint is not set
  Collectors trace_metrics_;
  telemetry::RecentErrors errors_;
  const std::unique_ptr<State> state_;
  StoreWatch watch_;
  MemoryWatch memory_;
  const Collectors collectors_;  // they read state_ and memory_
  IdleMemory idle_;
  LiveReport live_;
  std::unique_ptr<Servers> servers_;
  std::unique_ptr<MqttServers> mqtt_;
  std::unique_ptr<ConfigReload> reload_;
};

}  // namespace tutti::app
