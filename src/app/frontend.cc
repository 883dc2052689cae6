#include "app/frontend.h"

#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "app/broker_options.h"
#include "app/caches.h"
#include "app/options.h"
#include "app/process_signals.h"
#include "app/remote_models.h"
#include "app/service.h"
#include "app/service_metrics.h"
#include "app/store.h"
#include "base/log.h"
#include "telemetry/metrics.h"

namespace tutti::app {
namespace {

Status CheckFlags(const Settings& settings) {
  for (const OptionSpec& option : AllOptions()) {
    const std::string_view key = option.key;
    const bool workers = option.group == OptionGroup::kModel ||
                         (key.starts_with("cache.") && !key.starts_with("cache.semantic."));
    if (!workers || settings.SourceOf(key) != Source::kFlag) continue;
    return InvalidArgument(
               "invalid_value",
               FlagName(option) + " means nothing to a frontend: give it to tutti worker")
        .WithParam(option.key);
  }
  return OkStatus();
}

}  // namespace

Status ServeFrontend(const Settings& settings) {
  RETURN_IF_ERROR(CheckFlags(settings));
  PrepareProcess();
  ASSIGN_OR_RETURN(const LogLevel level, ParseLogLevel(settings.Text("log-level")));
  ASSIGN_OR_RETURN(const std::string socket, WorkersSocket(settings));
  ASSIGN_OR_RETURN(const std::optional<BrokerOptions> broker, BrokerFromSettings(settings));
  ASSIGN_OR_RETURN(const std::string folder, StoreFolder(settings));
  Logger log(level);
  telemetry::MetricsRegistry metrics;
  RemoteModels models(&log);
  const Collectors worker_metrics = CollectWorkers(metrics, models, broker.has_value());
  Caches caches;  // the workers' own
  caches.elsewhere = [&models](const std::optional<std::string>& tenant) {
    return static_cast<size_t>(models.pool().Flush(tenant ? &*tenant : nullptr));
  };
  ASSIGN_OR_RETURN(const std::unique_ptr<Service> service,
                   Service::Create(settings, models, std::move(caches), metrics, log));
  RETURN_IF_ERROR(service->Start());
  RETURN_IF_ERROR(models.Open(socket));
  if (broker) RETURN_IF_ERROR(models.OpenBroker(*broker, folder));
  RETURN_IF_ERROR(service->memory().CheckRoom());
  service->memory().ModelsAreLoaded(0);
  const std::string also = broker ? " and through " + broker::RedactedUrl(broker->access.url) : "";
  std::printf("tutti: waiting for workers at %s%s\n", socket.c_str(), also.c_str());
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
