#include "app/server.h"

#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "app/api_key.h"
#include "app/cache_metrics.h"
#include "app/doors.h"
#include "app/idle_memory.h"
#include "app/job_metrics.h"
#include "app/load_metrics.h"
#include "app/local_inference.h"
#include "app/memory_watch.h"
#include "app/mqtt_doors.h"
#include "app/password_metrics.h"
#include "app/state.h"
#include "app/store_metrics.h"
#include "app/store_watch.h"
#include "app/system_memory.h"
#include "base/log.h"
#include "base/thread_name.h"
#include "kserve/test_models.h"
#include "telemetry/door_metrics.h"

namespace tutti::app {
namespace {

sigset_t EndingSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  return set;
}

// Waits for a signal that ends the server, and calls `look` now and then. Returns its number, or 0
// when `stop` was set first. SIGHUP, with which others read their configuration again, does nothing
// here, and `log` (may be null) says so.
template <typename Look>
int WaitForSignal(const std::atomic<bool>& stop, Logger* log, const Look& look) {
  const sigset_t set = EndingSignals();
  const timespec poll{.tv_sec = 0, .tv_nsec = 200'000'000};
  while (!stop.load(std::memory_order_acquire)) {
    const int signal = sigtimedwait(&set, nullptr, &poll);
    if (signal == SIGTERM || signal == SIGINT) return signal;
    if (signal == SIGHUP && log != nullptr) {
      log->Info("signal.ignored",
                {{"signal", "SIGHUP"}, {"why", "the configuration is read at start alone"}});
    }
    look();
  }
  return 0;
}

// One line that is rewritten on a terminal, and every quarter elsewhere.
class ProgressLine {
 public:
  void Show(size_t done, size_t total) {
    const int percent = total == 0 ? 100 : static_cast<int>(done * 100 / total);
    if (percent == shown_ || (!terminal_ && percent < shown_ + 25 && percent < 100)) return;
    shown_ = percent;
    std::fprintf(stderr, terminal_ ? "\rpacking weights: %3d %%" : "packing weights: %3d %%\n",
                 percent);
    if (terminal_ && percent == 100) std::fputc('\n', stderr);
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  int shown_ = -1;
};

Status CheckNames(const std::vector<ModelRef>& models, bool test_models) {
  std::set<std::string> names;
  for (const ModelRef& model : models) {
    if (!names.insert(model.served_name).second) {
      return InvalidArgument("invalid_value", "two models would be called " + model.served_name +
                                                  "; give one another name: NAME=MODEL");
    }
    if (test_models && kserve::IsTestModel(model.served_name)) {
      return InvalidArgument("invalid_value", "--kserve-test-models brings a model called " +
                                                  model.served_name +
                                                  "; give yours another name: NAME=MODEL");
    }
  }
  return OkStatus();
}

Result<std::vector<OpenedModel>> OpenAll(const LocalInference& inference,
                                         const std::vector<ModelRef>& models) {
  std::vector<OpenedModel> opened;
  for (const ModelRef& model : models) {
    Result<OpenedModel> one = inference.Open(model);
    if (!one.ok()) return InModelFile(std::move(one).status(), model);
    if (!one->notice().empty()) std::fprintf(stderr, "tutti: %s\n", one->notice().c_str());
    opened.push_back(*std::move(one));
  }
  return opened;
}

std::vector<ServedName> NamesOf(const std::vector<ModelRef>& models,
                                const std::vector<OpenedModel>& opened) {
  std::vector<ServedName> names;
  for (size_t i = 0; i < models.size(); ++i)
    names.push_back({models[i].served_name, opened[i].generates()});
  return names;
}

void PrepareProcess() {
  const sigset_t set = EndingSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

// Loads the models one after the other on a thread of its own, and says of each where it is served.
// What it is given outlives it. One thread, but for failed().
class Loading {
 public:
  // `all_loaded` is called on that thread when they are.
  Loading(LocalInference& inference, State& state, const Doors& doors, MqttDoors& mqtt,
          const std::vector<ModelRef>& models, std::vector<OpenedModel> opened,
          std::function<void()> all_loaded)
      : inference_(inference),
        state_(state),
        doors_(doors),
        mqtt_(mqtt),
        models_(models),
        opened_(std::move(opened)),
        all_loaded_(std::move(all_loaded)) {
    thread_ = std::thread([this] { Main(); });
  }
  ~Loading() {
    Abandon();
    (void)Wait();
  }

  // Set when a model could not be loaded: Wait() tells why.
  const std::atomic<bool>& failed() const { return failed_; }
  // What is being loaded ends soon, and nothing after it begins.
  void Abandon() { abandoned_.store(true, std::memory_order_release); }
  // Until the thread has ended. An error unless all are served or it was abandoned.
  Status Wait() {
    if (thread_.joinable()) thread_.join();
    return status_;
  }

 private:
  bool abandoned() const { return abandoned_.load(std::memory_order_acquire); }

  void Main() {
    NameThread("tutti-loader");
    for (size_t i = 0; i < models_.size() && !abandoned(); ++i) {
      const Status status = LoadOne(std::move(opened_[i]));
      if (abandoned()) return;
      if (!status.ok()) return Fail(InModelFile(status, models_[i]));
      Announce(models_[i]);
      mqtt_.Announce();
    }
    if (abandoned()) return;
    all_loaded_();
    state_.Resume();
    mqtt_.Resume();
  }
  Status LoadOne(OpenedModel model) {
    ProgressLine progress;
    return inference_.Load(std::move(model), [&](size_t done, size_t total) {
      progress.Show(done, total);
      return !abandoned();
    });
  }
  void Fail(Status why) {
    inference_.LoadFailed(why);
    status_ = std::move(why);
    failed_.store(true, std::memory_order_release);
  }
  void Announce(const ModelRef& model) {
    const auto served = inference_.gateway().Find(model.served_name);
    std::printf("tutti: serving %s at %s%s%s (%s)\n", model.served_name.c_str(),
                doors_.address().c_str(), doors_.further_addresses().c_str(),
                mqtt_.addresses().c_str(), served.ok() ? (*served)->summary.c_str() : "");
    std::fflush(stdout);
  }

  LocalInference& inference_;
  State& state_;
  const Doors& doors_;
  MqttDoors& mqtt_;
  const std::vector<ModelRef>& models_;
  std::vector<OpenedModel> opened_;  // of the thread
  const std::function<void()> all_loaded_;
  Status status_;  // of the thread until it has ended
  std::atomic<bool> failed_{false}, abandoned_{false};
  std::thread thread_;
};

int64_t MemoryLimitFrom(const Settings& settings) {
  return settings.OptionalInt("memory.limit_bytes").value_or(MostMemory());
}

// Between tries to write down who was shut out on a full disk.
constexpr Duration kRetry = std::chrono::seconds(1);

// What comes so soon after the first signal is the same wish: `timeout` sends one to the process
// and one to the group that it is in, and whoever wraps a command passes on the Ctrl-C that a
// terminal has given to both, some milliseconds later. Nobody who means a second one is as quick:
// what it would end has not been said yet.
constexpr Duration kOneWish = std::chrono::milliseconds(250);

// While it lives, a second signal ends the process at once, whatever is being waited for.
class SecondSignal {
 public:
  SecondSignal() {
    try {
      thread_ = std::thread([this] {
        NameThread("tutti-signal");
        // From when this thread runs, so that what came beside the first one and waited is of it.
        const SteadyClock clock;
        const TimePoint another = clock.Now() + kOneWish;
        while (const int signal = WaitForSignal(over_, nullptr, [] {})) {
          if (clock.Now() >= another) _exit(128 + signal);
        }
      });
    } catch (const std::system_error&) {  // no memory for a thread: then the first has to do
    }
  }
  ~SecondSignal() {
    over_.store(true, std::memory_order_release);
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

// Lets what runs finish within the limit, and ends the rest. True when all had finished.
bool DrainAndStop(double limit_s, Loading& loading, LocalInference& inference, State& state,
                  Doors& doors) {
  if (const int busy = doors.active_requests(); busy > 0) {
    std::fprintf(stderr, "tutti: waiting up to %g s for %d request%s; again to end now\n", limit_s,
                 busy, busy == 1 ? "" : "s");
  }
  inference.BeginDrain();
  state.GiveBackJobs();
  (void)loading.Wait();
  const Duration limit = FromSeconds(limit_s);
  const TimePoint deadline = inference.clock().Now() + limit;
  const bool clean = inference.Drain(limit);
  state.Interrupt();
  // Streams that have ended still hold their last bytes: give them a moment to leave.
  doors.Drain(std::max<Duration>(deadline - inference.clock().Now(), std::chrono::seconds(1)));
  doors.Stop();
  return clean;
}

}  // namespace

Status Serve(const Settings& settings, const std::vector<ModelRef>& models) {
  PrepareProcess();
  ASSIGN_OR_RETURN(const LogLevel level, ParseLogLevel(settings.Text("log-level")));
  Logger log(level);
  telemetry::MetricsRegistry metrics;
  LocalInference inference(settings, &metrics);
  telemetry::DoorMetrics door_metrics(metrics);
  ASSIGN_OR_RETURN(const std::string key, ApiKey(settings.Text("api-key-file")));
  ASSIGN_OR_RETURN(const std::unique_ptr<State> state, State::Open(settings, key, inference, &log));
  const CacheMetrics cache_metrics(metrics, state->caches());
  const JobMetrics job_metrics(metrics, state->jobs());
  const PasswordMetrics password_metrics(metrics, state->authority());
  const StoreMetrics store_metrics(metrics, state->store(), state->callers().ledger());
  StoreWatch watch(inference, state->store(), state->callers().ledger(), inference.clock(), log);
  MemoryWatch memory(watch, MemoryLimitFrom(settings),
                     {.resident = ResidentMemory,
                      .shrink =
                          [&state] {
                            state->caches().Halve();
                            malloc_trim(0);
                          }},
                     inference.memory_level(), inference.clock(), log);
  const LoadMetrics load_metrics(metrics, inference.gateway(), memory);
  ASSIGN_OR_RETURN(const std::unique_ptr<Doors> doors,
                   Doors::Create(settings, {.inference = &inference,
                                            .health = &memory,
                                            .state = state.get(),
                                            .configured_key = key,
                                            .metrics = &metrics,
                                            .door_metrics = &door_metrics,
                                            .log = &log}));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<MqttDoors> mqtt,
      MqttDoors::Create(
          settings,
          {.inference = &inference, .state = state.get(), .metrics = &metrics, .log = &log}));
  RETURN_IF_ERROR(CheckNames(models, settings.On("kserve.test_models")));
  inference.Expect(models.size());
  ASSIGN_OR_RETURN(std::vector<OpenedModel> opened, OpenAll(inference, models));
  RETURN_IF_ERROR(CheckProjectModels(settings.mqtt_projects(), NamesOf(models, opened)));

  RETURN_IF_ERROR(doors->Start());
  RETURN_IF_ERROR(mqtt->Start());
  // The port answers health probes while the weights are read.
  // KV memory is the system's to give when it is first used.
  const auto decoders = std::count_if(opened.begin(), opened.end(),
                                      [](const OpenedModel& model) { return model.generates(); });
  const int64_t kv_bytes = decoders * settings.Int("kv-cache-bytes");
  Loading loading(inference, *state, *doors, *mqtt, models, std::move(opened),
                  [&memory, kv_bytes] { memory.ModelsAreLoaded(kv_bytes); });
  IdleMemory idle;
  TimePoint tried = inference.clock().Now();
  const int signal = WaitForSignal(loading.failed(), &log, [&] {
    idle.Look(doors->active_requests() > 0, inference.clock().Now());
    watch.Look();
    memory.Look();
    if (const TimePoint now = inference.clock().Now(); now - tried >= kRetry) {
      tried = now;
      state->WriteShutOut();
    }
  });
  if (signal == 0) {
    const Status status = loading.Wait();
    doors->Stop();
    return status;
  }
  loading.Abandon();
  std::optional<SecondSignal> second(std::in_place);
  const double drain_s = settings.Number("drain_s");
  log.Info("drain.begin",
           {{"signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"}, {"limit_s", drain_s}});
  const bool clean = DrainAndStop(drain_s, loading, inference, *state, *doors);
  mqtt->Stop();
  second.reset();
  // Rows that cannot be written now go with the process: that is no clean end. How many they are is
  // logged when the ledger ends.
  const bool written = state->WriteUsage().ok();
  watch.Look();
  log.Info("drain.end", {{"clean", clean && written ? "yes" : "no"}});
  return OkStatus();
}

}  // namespace tutti::app
