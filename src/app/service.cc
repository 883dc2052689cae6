#include "app/service.h"

#include <malloc.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "app/config/auth_options.h"
#include "app/config/mqtt_projects.h"
#include "app/process/process_signals.h"
#include "app/session_rates.h"
#include "app/version.h"
#include "base/ascii.h"
#include "base/clock.h"
#include "base/quote.h"
#include "base/url.h"
#include "server/http/routes.h"

namespace tutti::app {
namespace {

constexpr size_t kFormBytes = 64 << 10;  // of a form, around its file

// Options that both servers have.
template <typename Options>
void SetCommon(const Settings& settings, bool has_keys, Options& options) {
  SetHostAndTls(settings, options);
  options.has_keys = has_keys;
  options.access_log = settings.On("http.access_log");
}

// The page is for people at this machine unless it is turned on for others too.
http::WebMode WebModeFrom(const Settings& settings, const std::string& host) {
  const std::string mode = settings.Text("web");
  if (mode == "admin-only") return http::WebMode::kAdminOnly;
  const bool on = mode == "on" || (mode == "auto" && IsLoopback(host));
  return on ? http::WebMode::kOn : http::WebMode::kOff;
}

// "/tutti/" -> "/tutti". Errors: invalid_value.
Result<std::string> WebBaseFrom(const Settings& settings) {
  std::string base = settings.Text("web-base");
  while (base.ends_with('/')) base.pop_back();
  const auto fits = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-._~/").find(c) != std::string_view::npos;
  };
  const bool segments =
      base.find("//") == std::string::npos && base.find("/.") == std::string::npos;
  if (base.empty()) return base;
  if (!base.starts_with('/') || !segments || !std::all_of(base.begin(), base.end(), fits))
    return BadValue("web-base", "--web-base must be a path such as /tutti, not " + Quote(base, 64));
  // The server removes it from the beginning of each path, so a route that begins with it would not
  // be found.
  const std::string below = base + "/";
  for (const http::Route& route : http::Routes()) {
    if ((std::string(route.pattern) + "/").starts_with(below))
      return BadValue("web-base", "--web-base must not be the beginning of a route, and " +
                                      std::string(route.pattern) + " begins with " + base);
  }
  return base;
}

Result<http::HttpOptions> HttpOptionsFrom(const Settings& settings, const std::string& api_key,
                                          bool has_keys) {
  http::HttpOptions options;
  SetCommon(settings, has_keys, options);
  options.port = static_cast<int>(settings.Int("port"));
  options.ollama_port = static_cast<int>(settings.Int("ollama-port"));
  if (options.ollama_port != 0 && options.ollama_port == options.port) {
    return BadValue("ollama-port", "--ollama-port and --port are both " +
                                       std::to_string(options.port) +
                                       "; --port alone serves Ollama's API too");
  }
  options.io_threads = static_cast<int>(settings.Int("http.io_threads"));
  options.max_connections = static_cast<int>(settings.Int("http.max_connections"));
  options.prep_threads = static_cast<int>(settings.Int("prep-threads"));
  options.api_key = api_key;
  options.cors_origins = SplitList(settings.Text("cors-origin"));
  options.allowed_hosts = SplitList(settings.Text("allowed-hosts"));
  options.web = WebModeFrom(settings, options.host);
  ASSIGN_OR_RETURN(options.web_base, WebBaseFrom(settings));
  options.strict = settings.On("strict");
  if (const auto keepalive = settings.OptionalNumber("http.keepalive_s")) {
    options.keepalive = FromSeconds(*keepalive);
  }
  options.queue_full_status =
      static_cast<int>(std::strtol(settings.Text("http.queue_full_status").c_str(), nullptr, 10));
  options.version = kVersion;
  options.limits.upload_bytes = static_cast<size_t>(settings.Int("files.file_bytes")) + kFormBytes;
  RETURN_IF_ERROR(http::CheckBind(options));
  return options;
}

Result<rpc::GrpcOptions> GrpcOptionsFrom(const Settings& settings, bool has_keys) {
  rpc::GrpcOptions options;
  SetCommon(settings, has_keys, options);
  options.port = static_cast<int>(settings.Int("grpc-port"));
  options.handlers = static_cast<int>(settings.Int("grpc.handlers"));
  options.limits.message_bytes = static_cast<int>(settings.Int("grpc.message_bytes"));
  if (options.port != 0) RETURN_IF_ERROR(rpc::CheckBind(options));
  return options;
}

// Interval of attempts to store revocations made on a full disk.
constexpr Duration kRetry = std::chrono::seconds(1);
constexpr Duration kExpiry = std::chrono::minutes(1);  // of answers that may be asked for again

// Options shared by all chat protocols, so that a session has one rate limit for all of them.
sessions::ChatOptions ChatOf(const Settings& settings, const Clock& clock) {
  const std::vector<MqttProject> projects = Enabled(settings.mqtt_projects());
  const std::string tenant = settings.Text("mqtt.tenant");
  const auto rates = std::make_shared<SessionRates>(projects, tenant, &clock, &UnixSeconds);
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
           CollectAliases(metrics, state.callers().aliases()),
           CollectStore(metrics, state.store(), state.callers().ledger()),
           CollectLoad(metrics, models, memory)}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace

Servers::Servers(const http::HttpOptions& http, const rpc::GrpcOptions& grpc, bool with_grpc,
                 const kserve::RepositoryOptions& repository, const Dependencies& dependencies)
    : deps_(dependencies),
      chat_(deps_.chat, deps_.state->sessions()),
      repository_(repository, {.inference = &deps_.state->inference(),
                               .health = deps_.health,
                               .clock = deps_.clock,
                               .control = deps_.control}),
      http_(http, {.inference = &deps_.state->inference(),
                   .authority = &deps_.state->authority(),
                   .health = deps_.health,
                   .metrics = deps_.metrics,
                   .serving = deps_.server_metrics,
                   .log = deps_.log,
                   .clock = deps_.clock,
                   .repository = &repository_,
                   .responses = &deps_.state->responses(),
                   .sessions = &deps_.state->sessions(),
                   .chat = &chat_,
                   .jobs = &deps_.state->jobs(),
                   .files = &deps_.state->files(),
                   .batches = &deps_.state->batches(),
                   .idempotency_keys = &deps_.state->idempotency_keys(),
                   .adapters = deps_.adapters,
                   .control = deps_.control,
                   .count_load =
                       [&callers = deps_.state->callers()](const api::CallerRef& caller,
                                                           const std::string& model) {
                         return callers.CountLoad(caller, model);
                       },
                   .library = deps_.library,
                   .reload = deps_.reload,
                   .live = deps_.live,
                   .traces = deps_.traces,
                   .errors = deps_.errors,
                   .operate =
                       [state = deps_.state](std::string request, std::string by, auto done) {
                         state->Operate(std::move(request), std::move(by), std::move(done));
                       },
                   .limits_left =
                       [state = deps_.state](const api::Caller& caller) {
                         return state->callers().LimitsLeft(caller);
                       }}) {
  if (!with_grpc) return;
  grpc_ = std::make_unique<rpc::GrpcServer>(
      grpc, rpc::GrpcServer::Dependencies{.inference = &deps_.state->inference(),
                                          .authority = &deps_.state->authority(),
                                          .health = deps_.health,
                                          .repository = &repository_,
                                          .metrics = deps_.server_metrics,
                                          .log = deps_.log,
                                          .clock = deps_.clock,
                                          .errors = deps_.errors});
}

Result<std::unique_ptr<Servers>> Servers::Create(const Settings& settings,
                                                 const Dependencies& dependencies) {
  // A server that refuses anonymous local callers has keys or users.
  const bool has_keys = !dependencies.state->authority().IsOpen(/*loopback=*/true);
  ASSIGN_OR_RETURN(http::HttpOptions http,
                   HttpOptionsFrom(settings, dependencies.configured_key, has_keys));
  http.tells_cache = dependencies.tells_cache;
  ASSIGN_OR_RETURN(const rpc::GrpcOptions grpc, GrpcOptionsFrom(settings, has_keys));
  if (grpc.port != 0 && grpc.port == http.port) {
    return BadValue("grpc-port", "--grpc-port and --port are both " + std::to_string(http.port) +
                                     "; give one of them another, or --grpc-port 0 for no gRPC");
  }
  const kserve::RepositoryOptions repository{.server_version = kVersion,
                                             .test_models = settings.On("kserve.test_models")};
  return std::unique_ptr<Servers>(
      new Servers(http, grpc, grpc.port != 0, repository, dependencies));
}

Status Servers::Start() {
  RETURN_IF_ERROR(http_.Start());
  deps_.log->Info("http.listening", {{"address", http_.address()}});
  if (const std::string address = http_.ollama_address(); !address.empty())
    deps_.log->Info("ollama.listening", {{"address", address}});
  if (deps_.state->authority().IsOpen(/*loopback=*/true)) {
    deps_.log->Info("auth.open",
                    {{"why", "no keys exist; every client on this machine is served"}});
  }
  if (deps_.state->authority().IsShut(UnixSeconds())) {
    deps_.log->Warn("auth.shut", {{"why",
                                   "every key has ended and no user is enabled: all requests are "
                                   "refused until `tutti keys create` makes a key"}});
  }
  if (grpc_ == nullptr) return OkStatus();
  RETURN_IF_ERROR(grpc_->Start());
  deps_.log->Info("grpc.listening", {{"address", grpc_->address()}});
  return OkStatus();
}

Result<std::function<void()>> Servers::PrepareReload(const Settings& settings,
                                                     const std::string& key, bool has_keys) {
  ASSIGN_OR_RETURN(const http::HttpOptions http, HttpOptionsFrom(settings, key, has_keys));
  ASSIGN_OR_RETURN(std::function<void()> apply_http, http_.PrepareReload(http));
  if (grpc_ == nullptr) return apply_http;
  ASSIGN_OR_RETURN(const rpc::GrpcOptions grpc, GrpcOptionsFrom(settings, has_keys));
  ASSIGN_OR_RETURN(std::function<void()> apply_grpc, grpc_->PrepareReload(grpc));
  return std::function<void()>(
      [apply_http = std::move(apply_http), apply_grpc = std::move(apply_grpc)] {
        apply_http();
        apply_grpc();
      });
}

std::string Servers::further_addresses() const {
  std::string addresses;
  if (const std::string ollama = http_.ollama_address(); !ollama.empty())
    addresses += " and " + ollama;
  if (grpc_ != nullptr) addresses += " and " + grpc_->address();
  return addresses;
}

int Servers::active_requests() const {
  return http_.active_requests() + (grpc_ == nullptr ? 0 : grpc_->active_requests());
}

void Servers::Drain(Duration limit) {
  if (grpc_ == nullptr) {
    http_.Drain(limit);
    return;
  }
  const Clock& clock = *deps_.clock;
  const TimePoint end = clock.Now() + limit;
  std::jthread grpc;
  try {
    grpc = std::jthread([&] { grpc_->Drain(limit); });
  } catch (const std::system_error&) {  // the system refused a thread: one after the other
  }
  http_.Drain(limit);
  if (!grpc.joinable()) grpc_->Drain(std::max(end - clock.Now(), Duration::zero()));
}

void Servers::Stop() {
  if (grpc_ != nullptr) grpc_->Stop();
  http_.Stop();
}

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
      collectors_(CollectAll(metrics, *state_, backend.models(), memory_)),
      live_(backend, state_->callers(), state_->sessions()) {
  backend.UseTraces(traces_);
}

bool Service::IsAlias(std::string_view name) const { return state_->callers().aliases().Has(name); }

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
  ASSIGN_OR_RETURN(service->exporter_, StartTraceExport(settings, service->traces_, &log));
  service->trace_metrics_ = CollectTraces(metrics, service->exporter_.get());
  const sessions::ChatOptions chat = ChatOf(settings, backend.clock());
  ASSIGN_OR_RETURN(
      service->servers_,
      Servers::Create(settings, {.clock = &backend.clock(),
                                 .health = &service->memory_,
                                 .state = service->state_.get(),
                                 .configured_key = key,
                                 .metrics = &metrics,
                                 .server_metrics = &service->server_metrics_,
                                 .log = &log,
                                 .chat = chat,
                                 .tells_cache = keeps_answers,
                                 .adapters = backend.adapters(),
                                 .control = backend.control(),
                                 .library = backend.library(),
                                 .live = &service->live_,
                                 .traces = service->traces_.get(),
                                 .errors = &service->errors_,
                                 .reload = [raw = service.get()] { return raw->Reload(); }}));
  ASSIGN_OR_RETURN(service->mqtt_, MqttServers::Create(settings, {.clock = &backend.clock(),
                                                                  .state = service->state_.get(),
                                                                  .metrics = &metrics,
                                                                  .log = &log,
                                                                  .admit = chat.admit}));
  service->live_.UseClients(service->mqtt_->client_list());
  service->reload_ =
      std::make_unique<ConfigReload>(settings, key,
                                     ConfigReload::Parts{.state = service->state_.get(),
                                                         .servers = service->servers_.get(),
                                                         .mqtt = service->mqtt_.get(),
                                                         .log = &log,
                                                         .metrics = &metrics});
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
  return app::WaitForSignal(
      stop, &log_,
      [&] {
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
      },
      [this] { (void)Reload(); });
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
