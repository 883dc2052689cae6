#include "app/service.h"

#include <malloc.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <utility>

#include "app/config/api_key.h"
#include "app/config/mqtt_projects.h"
#include "app/mqtt/mqtt_rates.h"
#include "app/process/process_signals.h"
#include "app/process/system_memory.h"
#include "base/wall_clock.h"

namespace tutti::app {
namespace {

// Interval of attempts to store revocations made on a full disk.
constexpr Duration kRetry = std::chrono::seconds(1);
constexpr Duration kExpiry = std::chrono::minutes(1);  // of answers that may be asked for again

// Options shared by all chat protocols, so that a session has one rate limit for all of them.
sessions::ChatOptions ChatOf(const Settings& settings, const Clock& clock) {
  const std::vector<MqttProject> projects = Enabled(settings.mqtt_projects());
  const std::string tenant = settings.Text("mqtt.tenant");
  const auto rates = std::make_shared<MqttRates>(projects, tenant, &clock, &UnixSeconds);
  sessions::ChatOptions chat{
      .projects = {},
      .admit = [rates](const sessions::SessionKey& key) { return rates->Admit(key); },
      .unix_ms = &UnixMillis};
  for (const MqttProject& project : projects) chat.projects.push_back({project.name, tenant});
  return chat;
}

Collectors CollectAll(telemetry::MetricsRegistry& metrics, State& state,
                      const api::Inference& models, const MemoryWatch& memory) {
  Collectors all;
  for (const Collectors& part : std::array{
           CollectCaches(metrics, state.caches()),
           CollectJobs(metrics, state.jobs(), state.webhooks()),
           CollectBatches(metrics, state.batches()), CollectPasswords(metrics, state.authority()),
           CollectLimits(metrics, state.callers().limiter()),
           CollectStore(metrics, state.store(), state.callers().ledger()),
           CollectLoad(metrics, models, memory)}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace

Service::Service(const Settings& settings, Backend& backend, telemetry::MetricsRegistry& metrics,
                 Logger& log, std::unique_ptr<State> state)
    : settings_(settings),
      backend_(backend),
      log_(log),
      server_metrics_(metrics),
      state_(std::move(state)),
      watch_(backend, state_->store(), state_->callers().ledger(), backend.clock(), log),
      memory_(watch_, MemoryLimitFrom(settings),
              {.resident = ResidentMemory,
               .shrink =
                   [this] {
                     state_->caches().Halve();
                     malloc_trim(0);
                   }},
              backend.memory_level(), backend.clock(), log),
      collectors_(CollectAll(metrics, *state_, backend.models(), memory_)) {}

Result<std::unique_ptr<Service>> Service::Create(const Settings& settings, Backend& backend,
                                                 Caches caches, telemetry::MetricsRegistry& metrics,
                                                 Logger& log) {
  ASSIGN_OR_RETURN(const std::string key, ApiKey(settings.Text("api-key-file")));
  RETURN_IF_ERROR(caches.OpenSemantic(settings, backend.models(), backend.clock()));
  const bool keeps_answers =
      caches.answers != nullptr || caches.questions != nullptr || caches.elsewhere != nullptr;
  ASSIGN_OR_RETURN(std::unique_ptr<State> state,
                   State::Open(settings, key, backend, std::move(caches), &log));
  std::unique_ptr<Service> service(new Service(settings, backend, metrics, log, std::move(state)));
  const sessions::ChatOptions chat = ChatOf(settings, backend.clock());
  ASSIGN_OR_RETURN(service->servers_,
                   Servers::Create(settings, {.clock = &backend.clock(),
                                              .health = &service->memory_,
                                              .state = service->state_.get(),
                                              .configured_key = key,
                                              .metrics = &metrics,
                                              .server_metrics = &service->server_metrics_,
                                              .log = &log,
                                              .chat = chat,
                                              .tells_cache = keeps_answers}));
  ASSIGN_OR_RETURN(service->mqtt_, MqttServers::Create(settings, {.clock = &backend.clock(),
                                                                  .state = service->state_.get(),
                                                                  .metrics = &metrics,
                                                                  .log = &log,
                                                                  .admit = chat.admit}));
  return service;
}

Status Service::Start() {
  RETURN_IF_ERROR(servers_->Start());
  return mqtt_->Start();
}

void Service::Announce(const std::string& model, const std::string& summary) {
  std::printf("tutti: serving %s at %s%s%s (%s)\n", model.c_str(), servers_->address().c_str(),
              servers_->further_addresses().c_str(), mqtt_->addresses().c_str(), summary.c_str());
  std::fflush(stdout);
  mqtt_->Announce();
}

void Service::Resume() {
  state_->Resume();
  mqtt_->Resume();
}

int Service::WaitForSignal(const std::atomic<bool>& stop, const std::function<void()>& look) {
  TimePoint tried = backend_.clock().Now(), expired = tried;
  return app::WaitForSignal(stop, &log_, [&] {
    idle_.Look(servers_->active_requests() > 0, backend_.clock().Now());
    watch_.Look();
    memory_.Look();
    if (look != nullptr) look();
    const TimePoint now = backend_.clock().Now();
    if (now - expired >= kExpiry) {
      expired = now;
      state_->idempotency_keys().Expire();
    }
    if (now - tried >= kRetry) {
      tried = now;
      state_->WriteShutOut();
    }
  });
}

// True when all had finished.
bool Service::DrainAndStop(double limit_s, const std::function<void()>& abandon) {
  if (const int busy = servers_->active_requests(); busy > 0) {
    std::fprintf(stderr, "tutti: waiting up to %g s for %d request%s; again to end now\n", limit_s,
                 busy, busy == 1 ? "" : "s");
  }
  backend_.BeginDrain();
  state_->ReleaseLeases();
  abandon();
  const Duration limit = FromSeconds(limit_s);
  const TimePoint deadline = backend_.clock().Now() + limit;
  const bool clean = backend_.Drain(limit);
  state_->Interrupt();
  // Streams that have ended still hold their last bytes: give them a moment to leave.
  servers_->Drain(std::max<Duration>(deadline - backend_.clock().Now(), std::chrono::seconds(1)));
  servers_->Stop();
  return clean;
}

void Service::Drain(int signal, const std::function<void()>& abandon) {
  std::optional<SecondSignal> second(std::in_place);
  const double limit_s = settings_.Number("drain_s");
  log_.Info("drain.begin",
            {{"signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"}, {"limit_s", limit_s}});
  EndAtLatestIn(limit_s + kLastResortS);
  const bool clean = DrainAndStop(limit_s, abandon);
  mqtt_->Stop();
  second.reset();
  // Rows that cannot be written now are lost with the process, so this is not a clean end. The
  // ledger logs their number when it ends.
  const bool written = state_->WriteUsage().ok();
  watch_.Look();
  log_.Info("drain.end", {{"clean", clean && written ? "yes" : "no"}});
}

}  // namespace tutti::app
