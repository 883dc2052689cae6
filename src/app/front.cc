#include "app/front.h"

#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "app/caches.h"
#include "app/process_signals.h"
#include "app/remote_models.h"
#include "app/service.h"
#include "app/store.h"
#include "app/worker_metrics.h"
#include "base/log.h"
#include "telemetry/metrics.h"

namespace tutti::app {

Status ServeFront(const Settings& settings) {
  PrepareProcess();
  ASSIGN_OR_RETURN(const LogLevel level, ParseLogLevel(settings.Text("log-level")));
  ASSIGN_OR_RETURN(const std::string socket, WorkersSocket(settings));
  Logger log(level);
  telemetry::MetricsRegistry metrics;
  RemoteModels models(&log);
  const WorkerMetrics worker_metrics(metrics, models.pool());
  Caches caches;  // the workers' own
  caches.elsewhere = [&models](const std::optional<std::string>& tenant) {
    return static_cast<size_t>(models.pool().Flush(tenant ? &*tenant : nullptr));
  };
  ASSIGN_OR_RETURN(const std::unique_ptr<Service> service,
                   Service::Create(settings, models, std::move(caches), metrics, log));
  RETURN_IF_ERROR(service->Start());
  RETURN_IF_ERROR(models.Open(socket));
  service->memory().ModelsAreLoaded(0);
  std::printf("tutti: waiting for workers at %s\n", socket.c_str());
  std::fflush(stdout);
  std::set<std::string> announced;
  const int signal = service->WaitForSignal(std::atomic<bool>(false), [&] {
    const bool first = announced.empty();
    for (const api::ModelInfo& model : models.pool().Models()) {
      if (announced.insert(model.id).second) service->Announce(model.id, "in workers");
    }
    if (first && !announced.empty()) service->Resume();
  });
  service->Drain(signal, [] {});
  return OkStatus();
}

}  // namespace tutti::app
