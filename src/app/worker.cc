#include "app/worker.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "app/caches.h"
#include "app/config/broker_options.h"
#include "app/loading/loading.h"
#include "app/local_inference.h"
#include "app/process/idle_memory.h"
#include "app/process/memory_watch.h"
#include "app/process/process_signals.h"
#include "app/process/system_memory.h"
#include "app/store.h"
#include "app/version.h"
#include "base/log.h"
#include "cluster/channel/channel_link.h"
#include "cluster/inference_codec.h"
#include "cluster/worker_link.h"
#include "kernels/kernels.h"

namespace tutti::app {
namespace {

std::string NameOfThisProcess() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return std::string(host.data()) + ":" + std::to_string(getpid());
}

v1::Hello HelloOf(const Settings& settings, LocalInference& inference) {
  v1::Hello hello;
  hello.set_protocol(cluster::kProtocol);
  hello.set_name(NameOfThisProcess());
  hello.set_version(kVersion);
  int64_t places = 0;
  for (const api::ModelInfo& model : inference.gateway().Models()) {
    v1::WireModel* wire = hello.add_models();
    cluster::ToWire(model, wire);
    if (model.generates) places += settings.Int("max-num-seqs") + settings.Int("queue");
    if (model.encoder) places += settings.Int("encode.queue");
  }
  hello.set_places(static_cast<int>(std::min<int64_t>(places, 1 << 20)));
  hello.set_max_num_seqs(std::max(inference.gateway().Load().max_num_seqs, 1));
  if (const auto table = KernelsFromSettings(settings); table.ok())
    hello.set_arithmetic(std::string(kernels::IsaName((*table)->isa)) + " " + kVersion);
  return hello;
}

}  // namespace

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
  ASSIGN_OR_RETURN(const Caches caches, Caches::Open(settings, inference));
  inference.Expect(ServedNames(models));
  ASSIGN_OR_RETURN(std::vector<OpenedModel> opened, OpenAll(inference, models));
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
                   .all_served = [&] { loaded.store(true); }});
  std::unique_ptr<cluster::WorkerLink> link;
  Status opening;
  IdleMemory idle;
  std::atomic<bool> stop{false};
  const int signal = WaitForSignal(stop, &log, [&] {
    memory.Look();
    idle.Look(inference.gateway().Load().running > 0, inference.clock().Now());
    if (loading.failed().load()) stop.store(true);
    if (link != nullptr || !loaded.load()) return;
    memory.ModelsAreLoaded(decoders * settings.Int("kv-cache-bytes"));
    cluster::Relay::Ports ports = {
        .inference = &inference.gateway(),
        .health = &memory,
        .clock = &inference.clock(),
        .flush = [&caches](const std::string* tenant) {
          return static_cast<uint64_t>(
              caches.Flush(tenant == nullptr ? std::nullopt : std::optional(*tenant)));
        }};
    v1::Hello hello = HelloOf(settings, inference);
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
    std::fflush(stdout);
  });
  loading.Abandon();
  const Status load = loading.Wait();
  RETURN_IF_ERROR(opening);
  if (signal == 0) return load;
  const SecondSignal second;
  const double limit_s = settings.Number("drain_s");
  log.Info("drain.begin", {{"limit_s", limit_s}});
  EndAtLatestIn(limit_s + kLastResortS);
  const bool clean = link == nullptr || link->Drain(FromSeconds(limit_s));
  link.reset();
  (void)inference.Drain(Duration::zero());
  log.Info("drain.end", {{"clean", clean ? "yes" : "no"}});
  return OkStatus();
}

}  // namespace tutti::app
