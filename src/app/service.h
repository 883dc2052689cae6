// Service: all of a serving process that stands before its models: what it remembers, its doors,
// its watches, and how they end. Whoever composes the process makes the models' side (Backend).
//
// One thread, but for what its parts allow.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "app/backend.h"
#include "app/batch_metrics.h"
#include "app/cache_metrics.h"
#include "app/caches.h"
#include "app/doors.h"
#include "app/idle_memory.h"
#include "app/job_metrics.h"
#include "app/limit_metrics.h"
#include "app/load_metrics.h"
#include "app/memory_watch.h"
#include "app/mqtt_doors.h"
#include "app/password_metrics.h"
#include "app/settings.h"
#include "app/state.h"
#include "app/store_metrics.h"
#include "app/store_watch.h"
#include "base/log.h"
#include "base/status.h"
#include "telemetry/door_metrics.h"
#include "telemetry/metrics.h"

namespace tutti::app {

class Service {
 public:
  // What the settings say, checked, and the store opened; no port is. `caches`: those that the
  // models ask. All else outlives it. Errors: those of ApiKey, State::Open, Doors::Create and
  // MqttDoors::Create.
  static Result<std::unique_ptr<Service>> Create(const Settings& settings, Backend& backend,
                                                 Caches caches, telemetry::MetricsRegistry& metrics,
                                                 Logger& log);

  State& state() { return *state_; }
  MemoryWatch& memory() { return memory_; }

  // Opens the ports. The HTTP port answers health probes from now on.
  Status Start();
  // Says on standard output where `model` is served, and what it is. Any thread.
  void Announce(const std::string& model, const std::string& summary);
  // Goes on with what was accepted and not answered when the process before this one ended. Once,
  // when there are models. Any thread.
  void Resume();

  // Until a signal that ends the process: its number; or until `stop`: 0. `look` is called now and
  // then; may be null.
  int WaitForSignal(const std::atomic<bool>& stop, const std::function<void()>& look = nullptr);
  // Lets what runs finish within the settings' limit, and ends the rest; `abandon`, on the way,
  // ends what loads models. A second signal ends the process.
  void Drain(int signal, const std::function<void()>& abandon);
  // Ends everything now.
  void Stop() { doors_->Stop(); }

 private:
  Service(const Settings& settings, Backend& backend, telemetry::MetricsRegistry& metrics,
          Logger& log, std::unique_ptr<State> state);
  bool DrainAndStop(double limit_s, const std::function<void()>& abandon);

  const Settings& settings_;
  Backend& backend_;
  Logger& log_;
  telemetry::DoorMetrics door_metrics_;
  const std::unique_ptr<State> state_;
  const CacheMetrics cache_metrics_;
  const JobMetrics job_metrics_;
  const BatchMetrics batch_metrics_;
  const PasswordMetrics password_metrics_;
  const LimitMetrics limit_metrics_;
  const StoreMetrics store_metrics_;
  StoreWatch watch_;
  MemoryWatch memory_;
  const LoadMetrics load_metrics_;
  IdleMemory idle_;
  std::unique_ptr<Doors> doors_;
  std::unique_ptr<MqttDoors> mqtt_;
};

}  // namespace tutti::app
