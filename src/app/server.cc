#include "app/server.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "app/caches.h"
#include "app/loading.h"
#include "app/local_inference.h"
#include "app/process_signals.h"
#include "app/semantic_options.h"
#include "app/service.h"
#include "base/log.h"
#include "kserve/test_models.h"
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

}  // namespace tutti::app
