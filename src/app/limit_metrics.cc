#include "app/limit_metrics.h"

#include <memory>

#include "app/raise_to.h"
#include "base/mutex.h"

namespace tutti::app {
namespace {

struct SharingSeries {
  explicit SharingSeries(telemetry::MetricsRegistry& registry) {
    const auto exchanges = [&](const char* outcome) {
      return registry.GetCounter("tutti_limits_exchanges_total",
                                 "Exchanges with Redis about shared limits, by outcome",
                                 {{"outcome", outcome}});
    };
    ok = exchanges("ok");
    failed = exchanges("failed");
    up = registry.GetGauge("tutti_limits_shared", "1 if the store of shared limits is reachable",
                           {});
  }
  void Set(const limits::Limiter::SharingStats& now) {
    const MutexLock lock(mutex);  // two may scrape at once
    RaiseTo(ok, now.exchanges - now.failures);
    RaiseTo(failed, now.failures);
    up.Set(now.up ? 1 : 0);
  }

  Mutex mutex;
  telemetry::Counter ok, failed;
  telemetry::Gauge up;
};

}  // namespace

LimitMetrics::LimitMetrics(telemetry::MetricsRegistry& registry, const limits::Limiter& limiter) {
  if (!limiter.shares()) return;
  collector_ = registry.AddCollector([series = std::make_shared<SharingSeries>(registry),
                                      &limiter] { series->Set(limiter.sharing()); });
}

}  // namespace tutti::app
