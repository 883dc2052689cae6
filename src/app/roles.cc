#include "app/roles.h"

#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "app/caches.h"
#include "app/config/adapter_options.h"
#include "app/config/decision_temperature.h"
#include "app/config/encoder_options.h"
#include "app/config/options.h"
#include "app/config/remote_options.h"
#include "app/loading/adapter_manager.h"
#include "app/loading/loading.h"
#include "app/loading/model_folder.h"
#include "app/loading/model_library.h"
#include "app/loading/model_manager.h"
#include "app/local_inference.h"
#include "app/prefixes.h"
#include "app/process/memory.h"
#include "app/process/process_name.h"
#include "app/process/process_signals.h"
#include "app/remote_models.h"
#include "app/service.h"
#include "app/service_metrics.h"
#include "app/store.h"
#include "app/trace_export.h"
#include "app/version.h"
#include "base/log.h"
#include "base/quote.h"
#include "cluster/channel/channel_link.h"
#include "cluster/grpc/frontend_port.h"
#include "cluster/grpc/worker_link.h"
#include "cluster/inference_codec.h"
#include "kernels/kernels.h"
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

// Models and aliases. An alias generates text if its first model does.
std::vector<ServedName> NamesOf(const std::vector<ModelRef>& models,
                                const std::vector<OpenedModel>& opened,
                                const std::vector<aliases::Alias>& aliases) {
  std::vector<ServedName> names;
  for (size_t i = 0; i < models.size(); ++i)
    names.push_back({models[i].served_name, opened[i].generates()});
  for (const aliases::Alias& alias : aliases) {
    for (size_t i = 0; i < models.size(); ++i) {
      if (models[i].served_name == alias.targets.front().model)
        names.push_back({alias.name, opened[i].generates()});
    }
  }
  return names;
}

// Adapters change models that generate.
Status CheckAdapterBases(const std::vector<AdapterRef>& adapters,
                         const std::vector<ModelRef>& models,
                         const std::vector<OpenedModel>& opened,
                         const std::vector<std::string>& in_folder) {
  for (const AdapterRef& adapter : adapters) {
    // What a model of the folder is shows when it is loaded.
    bool found = std::find(in_folder.begin(), in_folder.end(), adapter.base) != in_folder.end();
    for (size_t i = 0; i < models.size(); ++i) {
      const bool meant = adapter.base.empty() || adapter.base == models[i].served_name;
      found = found || (meant && opened[i].generates());
    }
    if (found) continue;
    return InvalidArgument("invalid_value",
                           "--lora: adapter " + adapter.name +
                               " needs a model that generates text; name it BASE/NAME=PATH");
  }
  return OkStatus();
}

// Names of the models in the folder of --models; empty without one.
Result<std::vector<std::string>> NamesInFolder(const Settings& settings) {
  if (!settings.IsSet("models")) return std::vector<std::string>();
  ASSIGN_OR_RETURN(const std::vector<ModelRef> models, ModelsInFolder(settings.Text("models")));
  return ServedNames(models);
}

// Adapters of the settings, with models of the command line and of the folder as bases.
Result<std::vector<AdapterRef>> AdaptersFor(const Settings& settings,
                                            const std::vector<ModelRef>& models,
                                            const std::vector<std::string>& in_folder) {
  std::vector<std::string> names = ServedNames(models);
  names.insert(names.end(), in_folder.begin(), in_folder.end());
  return AdaptersFromSettings(settings, names);
}

// The folder of --lora-folder, absolute. Errors: invalid_value.
Result<std::string> AdapterFolder(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(folder, error);
  if (!error && std::filesystem::is_directory(path, error)) return path.string();
  return BadValue("lora-folder", "--lora-folder " + Quote(folder, 256) + " is no folder");
}

std::vector<int64_t> BytesOf(const std::vector<OpenedModel>& opened) {
  std::vector<int64_t> bytes;
  for (const OpenedModel& model : opened) bytes.push_back(model.info().status.memory_bytes);
  return bytes;
}

// --- the frontend ---

Status CheckFlags(const Settings& settings) {
  for (const OptionSpec& option : AllOptions()) {
    const std::string_view key = option.key;
    const bool workers = option.group == OptionGroup::kModel || key.starts_with("lora") ||
                         key.starts_with("prefix-") || key == "max-loras" || key == "models" ||
                         key == "pin" || key == "keep-alive" || key == "memory.budget" ||
                         key.starts_with("load.") || key == "decision-temperature" ||
                         (key.starts_with("cache.") && !key.starts_with("cache.semantic."));
    if (!workers || settings.SourceOf(key) != Source::kFlag) continue;
    return InvalidArgument(
               "invalid_value",
               FlagName(option) + " means nothing to a frontend: give it to tutti worker")
        .WithParam(option.key);
  }
  return OkStatus();
}

// --- the worker ---

// Without the models, which the link adds whenever it finds a frontend.
v1::Hello HelloOf(const Settings& settings, const std::vector<ModelRef>& models,
                  LocalInference& inference) {
  v1::Hello hello;
  hello.set_protocol(cluster::kProtocol);
  hello.set_name(NameOfThisProcess());
  hello.set_version(kVersion);
  int64_t places = 0;
  const api::ModelList served = inference.gateway().Models();
  for (const api::ModelInfo& model : served) {
    if (!model.parent.empty()) continue;  // its model counts
    if (model.generates) places += settings.Int("max-num-seqs") + settings.Int("queue");
    if (model.encoder) places += settings.Int("encode.queue");
  }
  hello.set_places(static_cast<int>(std::min<int64_t>(places, 1 << 20)));
  // Models that are not loaded yet run as many each.
  hello.set_max_num_seqs(std::max(inference.gateway().Load().max_num_seqs,
                                  static_cast<int>(settings.Int("max-num-seqs"))));
  // An answer goes on at another worker only if it computes the same bits.
  if (const auto table = KernelsFromSettings(settings); table.ok()) {
    std::string arithmetic = std::string(kernels::IsaName((*table)->isa)) + " " + kVersion;
    for (const std::string_view option : {"dtype", "kv-dtype", "context"})
      arithmetic += " " + std::string(option) + "=" + settings.Text(option);
    for (const ModelRef& model : models) {
      if (!model.dtype.empty()) arithmetic += " " + model.served_name + ":" + model.dtype;
    }
    // The digest of an adapter is that of its contents and its base.
    for (const api::ModelInfo& model : served) {
      if (!model.parent.empty()) arithmetic += " " + model.id + "=" + model.digest;
    }
    hello.set_arithmetic(arithmetic);
  }
  return hello;
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
  ASSIGN_OR_RETURN(const std::shared_ptr<kv::PrefixDisk> prefixes, OpenPrefixes(settings, &log));
  inference.KeepPrefixes(prefixes);
  const Collectors prefix_metrics = CollectPrefixes(metrics, prefixes);
  ASSIGN_OR_RETURN(ModelManagerOptions manager_options, ModelManagerOptionsFrom(settings));
  ModelManager manager(std::move(manager_options), inference, log);
  const Collectors model_metrics = CollectModels(metrics, manager);
  const Collectors adapter_metrics = CollectAdapters(metrics, settings, inference.gateway());
  ASSIGN_OR_RETURN(const std::string store_folder, StoreFolder(settings));
  ModelLibrary library(
      {.allowed = settings.Text("pull") == "on-demand",
       .hub = HubSettingsFromEnvironment(),
       .record = store_folder.empty() ? std::string() : store_folder + "/models.json"},
      manager, log);
  inference.UseLibrary(&library);
  const Collectors library_metrics = CollectPulls(metrics, library);
  ASSIGN_OR_RETURN(Caches caches, Caches::Open(settings, inference));
  std::optional<AdapterManager> adapter_manager;
  if (settings.IsSet("lora-folder")) {
    ASSIGN_OR_RETURN(std::string folder, AdapterFolder(settings.Text("lora-folder")));
    adapter_manager.emplace(
        inference,
        AdapterManager::Options{
            .folder = std::move(folder),
            .max_loaded = static_cast<size_t>(settings.Int("max-loras")),
            .load_base = [&manager](const std::string& model,
                                    const auto& done) { manager.Load(model, done); },
            .unloaded = [&manager] { manager.Relist(); }},
        log);
    inference.UseAdapterControl(&*adapter_manager);
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Service> service,
                   Service::Create(settings, inference, std::move(caches), metrics, log));
  RETURN_IF_ERROR(CheckModelNames(models));
  RETURN_IF_ERROR(CheckSemanticModels(settings, ServedNames(models)));
  if (settings.On("kserve.test_models")) RETURN_IF_ERROR(CheckTestModels(models));
  ASSIGN_OR_RETURN(const std::vector<std::string> in_folder, NamesInFolder(settings));
  ASSIGN_OR_RETURN(std::vector<AdapterRef> adapters, AdaptersFor(settings, models, in_folder));
  // A folder may hold further models of any name.
  if (!settings.IsSet("models"))
    RETURN_IF_ERROR(CheckDecisionTemperatures(settings, ServedNames(models)));
  inference.Expect(ServedNames(models));
  ASSIGN_OR_RETURN(std::vector<OpenedModel> opened, OpenAll(inference, models));
  RETURN_IF_ERROR(CheckAdapterBases(adapters, models, opened, in_folder));
  std::vector<std::string> adapter_names;
  for (const AdapterRef& adapter : adapters) adapter_names.push_back(adapter.name);
  inference.UseAdapters(std::move(adapters));
  RETURN_IF_ERROR(
      CheckProjectModels(settings.mqtt_projects(), NamesOf(models, opened, settings.aliases())));
  RETURN_IF_ERROR(manager.List(models, BytesOf(opened)));
  library.Restore();
  // Models of the folder and adapters come and go.
  const auto served_names = [&manager, &inference, adapter_names] {
    std::vector<std::string> names = manager.names();
    names.insert(names.end(), adapter_names.begin(), adapter_names.end());
    for (const api::ModelInfo& model : inference.gateway().Models()) {
      if (std::find(names.begin(), names.end(), model.id) == names.end()) names.push_back(model.id);
    }
    return names;
  };
  RETURN_IF_ERROR(aliases::CheckAliases(settings.aliases(), served_names()));
  service->CheckAliasesAgainst(served_names);
  service->AfterReload([&manager] { manager.Rescan(); });
  if (adapter_manager.has_value()) {
    adapter_manager->RefuseNames(
        [&service](std::string_view name) { return service->IsAlias(name); });
  }

  RETURN_IF_ERROR(service->Start());
  // The port answers health probes while the weights are read.
  // KV memory is the system's to give when it is first used.
  const auto decoders = std::count_if(opened.begin(), opened.end(),
                                      [](const OpenedModel& model) { return model.generates(); });
  const int64_t kv_bytes = decoders * settings.Int("kv-cache-bytes");
  Loading loading(
      inference, models, std::move(opened),
      {.served =
           [&](const ModelRef& model) {
             RETURN_IF_ERROR(service->memory().CheckRoom());
             const auto served = inference.gateway().Find(model.served_name);
             service->Announce(model.served_name, served.ok() ? (*served)->summary : "");
             return OkStatus();
           },
       .all_served = [&]() -> Status {
         service->memory().ModelsAreLoaded(kv_bytes);
         manager.OnMemory([&service](int64_t bytes) { service->memory().ModelsChanged(bytes); });
         RETURN_IF_ERROR(manager.Start());
         if (settings.IsSet("models")) {
           service->Announce(
               fmt::format("{} models of {}", manager.folder_models(), settings.Text("models")),
               "loaded on demand");
         }
         service->Resume();
         return OkStatus();
       }});
  const int signal = service->WaitForSignal(loading.failed(), [&] { manager.Look(); });
  if (signal == 0) {
    const Status status = loading.Wait();
    library.Stop();
    manager.Stop();
    service->Stop();
    return status;
  }
  loading.Abandon();
  service->Drain(signal, [&] {
    (void)loading.Wait();
    library.Stop();
    manager.Stop();
  });
  return OkStatus();
}

Status ServeFrontend(const Settings& settings) {
  RETURN_IF_ERROR(CheckFlags(settings));
  PrepareProcess();
  ASSIGN_OR_RETURN(const LogLevel level, ParseLogLevel(settings.Text("log-level")));
  ASSIGN_OR_RETURN(const std::string socket, WorkersSocket(settings));
  RETURN_IF_ERROR(cluster::FrontendPort::CheckBuilt());
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
  service->AfterReload([&models] { models.pool().Rescan(); });
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

Status RunWorker(const Settings& settings, const std::vector<ModelRef>& models) {
  PrepareProcess();
  ASSIGN_OR_RETURN(const LogLevel level, ParseLogLevel(settings.Text("log-level")));
  ASSIGN_OR_RETURN(const std::optional<BrokerOptions> broker, BrokerFromSettings(settings));
  // With a broker the frontend need not be on this machine, and no socket of it.
  std::string frontend;
  if (broker) {
    frontend = broker::RedactedUrl(broker->access.url);
  } else {
    ASSIGN_OR_RETURN(frontend, WorkersSocket(settings));
  }
  RETURN_IF_ERROR(CheckModelNames(models));
  Logger log(level);
  LocalInference inference(settings, nullptr, &log);
  ASSIGN_OR_RETURN(std::shared_ptr<kv::PrefixDisk> prefixes, OpenPrefixes(settings, &log));
  inference.KeepPrefixes(std::move(prefixes));
  const auto request_traces = std::make_shared<api::RequestTraces>();
  ASSIGN_OR_RETURN(const std::unique_ptr<traces::Exporter> exporter,
                   StartTraceExport(settings, request_traces, &log));
  if (exporter != nullptr) inference.UseTraces(request_traces);
  ASSIGN_OR_RETURN(ModelManagerOptions manager_options, ModelManagerOptionsFrom(settings));
  std::atomic<bool> models_changed{false};
  ModelManager manager(std::move(manager_options), inference, log);
  manager.OnChange([&models_changed] { models_changed.store(true); });
  ASSIGN_OR_RETURN(const Caches caches, Caches::Open(settings, inference));
  ASSIGN_OR_RETURN(const std::vector<std::string> in_folder, NamesInFolder(settings));
  ASSIGN_OR_RETURN(std::vector<AdapterRef> adapters, AdaptersFor(settings, models, in_folder));
  // A folder may hold further models of any name.
  if (!settings.IsSet("models"))
    RETURN_IF_ERROR(CheckDecisionTemperatures(settings, ServedNames(models)));
  inference.Expect(ServedNames(models));
  ASSIGN_OR_RETURN(std::vector<OpenedModel> opened, OpenAll(inference, models));
  RETURN_IF_ERROR(CheckAdapterBases(adapters, models, opened, in_folder));
  inference.UseAdapters(std::move(adapters));
  RETURN_IF_ERROR(manager.List(models, BytesOf(opened)));
  const auto decoders = std::count_if(opened.begin(), opened.end(),
                                      [](const OpenedModel& model) { return model.generates(); });
  MemoryWatch memory(inference, MemoryLimitFrom(settings),
                     {.resident = ResidentMemory,
                      .shrink =
                          [&caches] {
                            caches.Halve();
                            malloc_trim(0);
                          }},
                     inference.memory_level(), inference.clock(), log);
  std::atomic<bool> loaded{false};
  Loading loading(inference, models, std::move(opened),
                  {.served = [&](const ModelRef&) { return memory.CheckRoom(); },
                   .all_served = [&]() -> Status {
                     memory.ModelsAreLoaded(decoders * settings.Int("kv-cache-bytes"));
                     manager.OnMemory([&memory](int64_t bytes) { memory.ModelsChanged(bytes); });
                     RETURN_IF_ERROR(manager.Start());
                     loaded.store(true);
                     return OkStatus();
                   }});
  std::unique_ptr<cluster::WorkerLink> link;
  Status opening;
  IdleMemory idle;
  std::atomic<bool> stop{false};
  const int signal = WaitForSignal(stop, &log, [&] {
    memory.Look();
    idle.Look(inference.gateway().Load().running > 0, inference.clock().Now());
    manager.Look();
    if (loading.failed().load()) stop.store(true);
    if (link != nullptr && models_changed.exchange(false)) link->BeatSoon();
    if (link != nullptr || !loaded.load()) return;
    cluster::Relay::Ports ports = {
        .inference = &inference.gateway(),
        .health = &memory,
        .clock = &inference.clock(),
        .flush =
            [&caches](const std::string* tenant) {
              return static_cast<uint64_t>(
                  caches.Flush(tenant == nullptr ? std::nullopt : std::optional(*tenant)));
            },
        .control = &manager,
        .memory_budget = manager.budget()};
    v1::Hello hello = HelloOf(settings, models, inference);
    auto made = broker
                    ? cluster::OpenChannelLink(broker::MakeBroker(broker->access),
                                               {.name = broker->name, .broker = frontend},
                                               std::move(hello), std::move(ports), &log)
                    : cluster::WorkerLink::Open(frontend, std::move(hello), std::move(ports), &log);
    if (!made.ok()) {
      opening = made.status();
      return stop.store(true);
    }
    link = *std::move(made);
    for (const ModelRef& model : models) {
      const auto served = inference.gateway().Find(model.served_name);
      std::printf("tutti: worker %s brings %s to %s (%s)\n", NameOfThisProcess().c_str(),
                  model.served_name.c_str(), frontend.c_str(),
                  served.ok() ? (*served)->summary.c_str() : "");
    }
    if (settings.IsSet("models")) {
      std::printf("tutti: worker %s brings %zu models of %s to %s (loaded on demand)\n",
                  NameOfThisProcess().c_str(), manager.folder_models(),
                  settings.Text("models").c_str(), frontend.c_str());
    }
    std::fflush(stdout);
  });
  loading.Abandon();
  const Status load = loading.Wait();
  if (signal == 0) manager.Stop();
  RETURN_IF_ERROR(opening);
  if (signal == 0) return load;
  const SecondSignal second;
  const double limit_s = settings.Number("drain_s");
  log.Info("drain.begin", {{"limit_s", limit_s}});
  EndAtLatestIn(limit_s + kLastResortS);
  const bool clean = link == nullptr || link->Drain(FromSeconds(limit_s));
  link.reset();  // requests that still wait for a model move to another worker
  manager.Stop();
  (void)inference.Drain(Duration::zero());
  log.Info("drain.end", {{"clean", clean ? "yes" : "no"}});
  return OkStatus();
}

}  // namespace tutti::app
