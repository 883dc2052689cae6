#include "app/server.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <set>
#include <system_error>
#include <thread>
#include <vector>

#include "app/doors.h"
#include "app/local_inference.h"
#include "base/log.h"
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

// Waits for a signal that ends the server. Returns its number, or 0 when `stop` was set first.
int WaitForSignal(const std::atomic<bool>& stop) {
  const sigset_t set = EndingSignals();
  const timespec poll{.tv_sec = 0, .tv_nsec = 200'000'000};
  while (!stop.load(std::memory_order_acquire)) {
    const int signal = sigtimedwait(&set, nullptr, &poll);
    if (signal == SIGTERM || signal == SIGINT) return signal;
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

void PrepareProcess() {
  const sigset_t set = EndingSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

}  // namespace

Status Serve(const Settings& settings, const std::vector<ModelRef>& models) {
  PrepareProcess();
  ASSIGN_OR_RETURN(const LogLevel level, ParseLogLevel(settings.Text("log-level")));
  Logger log(level);
  telemetry::MetricsRegistry metrics;
  LocalInference inference(settings, &metrics);
  telemetry::DoorMetrics door_metrics(metrics);
  ASSIGN_OR_RETURN(const std::unique_ptr<Doors> doors,
                   Doors::Create(settings, {.inference = &inference,
                                            .metrics = &metrics,
                                            .door_metrics = &door_metrics,
                                            .log = &log}));
  RETURN_IF_ERROR(CheckNames(models, settings.On("kserve.test_models")));
  inference.Expect(models.size());
  ASSIGN_OR_RETURN(std::vector<OpenedModel> opened, OpenAll(inference, models));

  RETURN_IF_ERROR(doors->Start());

  // The port answers health probes while the weights are read.
  std::atomic<bool> failed{false}, stopping{false};
  Status load_status;
  std::jthread loader([&] {
    const auto stop = [&] { return stopping.load(std::memory_order_acquire); };
    for (size_t i = 0; i < models.size(); ++i) {
      ProgressLine progress;
      load_status = inference.Load(std::move(opened[i]), [&](size_t done, size_t total) {
        progress.Show(done, total);
        return !stop();
      });
      if (stop()) return;
      if (!load_status.ok()) {
        load_status = InModelFile(std::move(load_status), models[i]);
        inference.LoadFailed(load_status);
        failed.store(true, std::memory_order_release);
        return;
      }
      const auto served = inference.gateway().Find(models[i].served_name);
      std::printf("tutti: serving %s at %s%s (%s)\n", models[i].served_name.c_str(),
                  doors->address().c_str(), doors->further_addresses().c_str(),
                  served.ok() ? (*served)->summary.c_str() : "");
      std::fflush(stdout);
    }
  });
  const int signal = WaitForSignal(failed);
  if (signal == 0) {
    loader.join();
    doors->Stop();
    return load_status;
  }

  stopping.store(true, std::memory_order_release);

  // A second signal ends the process at once, whatever is being waited for.
  std::atomic<bool> drained{false};
  std::jthread second;
  try {
    second = std::jthread([&drained] {
      const int again = WaitForSignal(drained);
      if (again != 0) _exit(128 + again);
    });
  } catch (const std::system_error&) {  // no memory for a thread: then the first signal has to do
  }
  const double drain_s = settings.Number("drain_s");
  log.Info("drain.begin",
           {{"signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"}, {"limit_s", drain_s}});
  if (const int busy = doors->active_requests(); busy > 0) {
    std::fprintf(stderr, "tutti: waiting up to %g s for %d request%s; again to end now\n", drain_s,
                 busy, busy == 1 ? "" : "s");
  }
  inference.BeginDrain();
  loader.join();
  const Duration limit = FromSeconds(drain_s);
  const TimePoint deadline = inference.clock().Now() + limit;
  const bool clean = inference.Drain(limit);
  // Streams that have ended still hold their last bytes: give them a moment to leave.
  doors->Drain(std::max<Duration>(deadline - inference.clock().Now(), std::chrono::seconds(1)));
  doors->Stop();
  drained.store(true, std::memory_order_release);
  if (second.joinable()) second.join();
  log.Info("drain.end", {{"clean", clean ? "yes" : "no"}});
  return OkStatus();
}

}  // namespace tutti::app
