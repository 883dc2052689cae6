// LimitMetrics: Prometheus metrics of the connection to the store of shared limits.
#pragma once

#include "services/limits/limiter.h"
#include "telemetry/metrics.h"

namespace tutti::app {

class LimitMetrics {
 public:
  // Both must outlive it. Without shared limits there are no series.
  LimitMetrics(telemetry::MetricsRegistry& registry, const limits::Limiter& limiter);

 private:
  telemetry::MetricsRegistry::CollectorHandle collector_;
};

}  // namespace tutti::app
