// LimitMetrics: whether the limits that servers share are shared now, as the scraper sees it.
#pragma once

#include "services/limits/limiter.h"
#include "telemetry/metrics.h"

namespace tutti::app {

class LimitMetrics {
 public:
  // Both outlive it. Limits that are this server's alone have no series.
  LimitMetrics(telemetry::MetricsRegistry& registry, const limits::Limiter& limiter);

 private:
  telemetry::MetricsRegistry::CollectorHandle collector_;
};

}  // namespace tutti::app
