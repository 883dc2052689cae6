#include "app/worker_metrics.h"

#include <memory>
#include <optional>

#include "app/raise_to.h"
#include "base/mutex.h"

namespace tutti::app {
namespace {

using telemetry::Counter;
using telemetry::Gauge;
using telemetry::MetricsRegistry;

class WorkerSeries {
 public:
  WorkerSeries(MetricsRegistry& registry, bool broker) {
    if (broker) {
      connected_ = registry.GetGauge("tutti_broker_connected",
                                     "1 if the broker of the remote workers is connected", {});
      repeated_ = registry.GetCounter("tutti_broker_repeated_messages_total",
                                      "Messages to workers that were sent again", {});
    }
    const auto gauge = [&](const char* state) {
      return registry.GetGauge("tutti_workers", "Attached workers", {{"state", state}});
    };
    serving_ = gauge("serving");
    draining_ = gauge("draining");
    running_ = registry.GetGauge("tutti_running_sequences", "Running sequences of all workers", {});
    waiting_ = registry.GetGauge("tutti_waiting_sequences", "Waiting sequences of all workers", {});
    lost_ = registry.GetCounter("tutti_workers_lost_total",
                                "Workers that ended while they had requests", {});
    const auto outcome = [&](const char* name) {
      return registry.GetCounter("tutti_lost_requests_total",
                                 "Requests whose worker ended, by outcome", {{"outcome", name}});
    };
    resumed_ = outcome("resumed");
    failed_ = outcome("failed");
    quarantined_ = outcome("quarantined");
  }
  void Set(const remote::WorkerPool::Figures& now, const api::LoadSnapshot& load,
           const std::optional<remote::ChannelPort::Figures>& broker) {
    const MutexLock lock(mutex_);  // two may scrape at once
    serving_.Set(now.workers - now.draining);
    draining_.Set(now.draining);
    running_.Set(load.running);
    waiting_.Set(load.waiting);
    RaiseTo(lost_, now.lost);
    RaiseTo(resumed_, now.resumed);
    RaiseTo(failed_, now.failed - now.quarantined);
    RaiseTo(quarantined_, now.quarantined);
    if (!broker) return;
    connected_.Set(broker->connected ? 1 : 0);
    RaiseTo(repeated_, broker->repeated);
  }

 private:
  Mutex mutex_;
  Gauge connected_;
  Counter repeated_;
  Gauge serving_, draining_, running_, waiting_;
  Counter lost_, resumed_, failed_, quarantined_;
};

}  // namespace

WorkerMetrics::WorkerMetrics(MetricsRegistry& registry, RemoteModels& models, bool broker)
    : collector_(registry.AddCollector(
          [series = std::make_shared<WorkerSeries>(registry, broker), &models] {
            series->Set(models.pool().figures(), models.pool().Load(), models.broker());
          })) {}

}  // namespace tutti::app
