#include "app/server.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "app/caches.h"
#include "app/config/broker_options.h"
#include "app/config/options.h"
#include "app/config/semantic_options.h"
#include "app/loading/loading.h"
#include "app/local_inference.h"
#include "app/process/process_signals.h"
#include "app/remote_models.h"
#include "app/service.h"
#include "app/service_metrics.h"
#include "app/store.h"
#include "base/log.h"
#include "protocol/kserve/test_models.h"
#include "telemetry/metrics.h"

namespace tutti::app {
namespace {

Status CheckTestModels(const std::vector<ModelRef>& models) {
  for (const ModelRef& model : models) {
    if (kserve::IsTestModel(model.served_name)) {
      return InvalidArgument("invalid_value", "--kserve-test-models brings a model called " +
                                                  model.served_name +
                                                  "; give yours another name: NAME=MODEL");
    }
  }
  return OkStatus();
}

std::vector<ServedName> NamesOf(const std::vector<ModelRef>& models,
                                const std::vector<OpenedModel>& opened) {
  std::vector<ServedName> names;
  for (size_t i = 0; i < models.size(); ++i)
    names.push_back({models[i].served_name, opened[i].generates()});
  return names;
}

}  // namespace

Status Serve(const Settings& settings, const std::vector<ModelRef>& models) {
  PrepareProcess();
  ASSIGN_OR_RETURN(const LogLevel level, ParseLogLevel(settings.Text("log-level")));
  if (settings.Text("broker.backend") != "store") {
    return InvalidArgument(
               "invalid_value",
               "broker.backend is for --role frontend, whose models are in tutti worker")
        .WithParam("broker.backend");
  }
  Logger log(level);
  telemetry::MetricsRegistry metrics;
  LocalInference inference(settings, &metrics, &log);
  ASSIGN_OR_RETURN(Caches caches, Caches::Open(settings, inference));
  ASSIGN_OR_RETURN(const std::unique_ptr<Service> service,
                   Service::Create(settings, inference, std::move(caches), metrics, log));
  RETURN_IF_ERROR(CheckModelNames(models));
  RETURN_IF_ERROR(CheckSemanticModels(settings, ServedNames(models)));
  if (settings.On("kserve.test_models")) RETURN_IF_ERROR(CheckTestModels(models));
  inference.Expect(ServedNames(models));
  ASSIGN_OR_RETURN(std::vector<OpenedModel> opened, OpenAll(inference, models));
  RETURN_IF_ERROR(CheckProjectModels(settings.mqtt_projects(), NamesOf(models, opened)));

  RETURN_IF_ERROR(service->Start());
  // The port answers health probes while the weights are read.
  // KV memory is the system's to give when it is first used.
  const auto decoders = std::count_if(opened.begin(), opened.end(),
                                      [](const OpenedModel& model) { return model.generates(); });
  const int64_t kv_bytes = decoders * settings.Int("kv-cache-bytes");
  Loading loading(inference, models, std::move(opened),
                  {.served =
                       [&](const ModelRef& model) {
                         RETURN_IF_ERROR(service->memory().CheckRoom());
                         const auto served = inference.gateway().Find(model.served_name);
                         service->Announce(model.served_name,
                                           served.ok() ? (*served)->summary : "");
                         return OkStatus();
                       },
                   .all_served =
                       [&] {
                         service->memory().ModelsAreLoaded(kv_bytes);
                         service->Resume();
                       }});
  const int signal = service->WaitForSignal(loading.failed());
  if (signal == 0) {
    const Status status = loading.Wait();
    service->Stop();
    return status;
  }
  loading.Abandon();
  service->Drain(signal, [&] { (void)loading.Wait(); });
  return OkStatus();
}

// --- the frontend ---

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
