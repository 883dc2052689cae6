// WorkerMetrics: a front's workers, as the scraper sees them.
#pragma once

#include "remote/worker_pool.h"
#include "telemetry/metrics.h"

namespace tutti::app {

class WorkerMetrics {
 public:
  // Both outlive it.
  WorkerMetrics(telemetry::MetricsRegistry& registry, const remote::WorkerPool& pool);

 private:
  telemetry::MetricsRegistry::CollectorHandle collector_;
};

}  // namespace tutti::app
