// Service: everything in a serving process except the models: stored state, servers, watchdogs and
// their shutdown. The caller provides the model side (Backend).
//
// For use by one thread, except where a member allows more.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "app/backend.h"
#include "app/caches.h"
#include "app/config/settings.h"
#include "app/mqtt/mqtt_servers.h"
#include "app/process/idle_memory.h"
#include "app/process/memory_watch.h"
#include "app/servers.h"
#include "app/service_metrics.h"
#include "app/state.h"
#include "app/store_watch.h"
#include "base/log.h"
#include "base/status.h"
#include "telemetry/metrics.h"
#include "telemetry/server_metrics.h"

namespace tutti::app {

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

  // Opens the ports. The HTTP port answers health probes from now on.
  Status Start();
  // Prints the address of `model` and its summary to standard output. Any thread.
  void Announce(const std::string& model, const std::string& summary);
  // Resumes requests that the previous process accepted but did not answer. Called once, after the
  // models are loaded. Any thread.
  void Resume();

  // Waits for a signal that ends the process and returns its number, or 0 when `stop` is set first.
  // Calls `look` periodically; it may be null.
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
  const std::unique_ptr<State> state_;
  StoreWatch watch_;
  MemoryWatch memory_;
  const Collectors collectors_;  // they read state_ and memory_
  IdleMemory idle_;
  std::unique_ptr<Servers> servers_;
  std::unique_ptr<MqttServers> mqtt_;
};

}  // namespace tutti::app
