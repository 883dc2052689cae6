// BatchMetrics: Prometheus metrics of batches and their lines.
#pragma once

#include "services/batches/batches.h"
#include "telemetry/metrics.h"

namespace tutti::app {

class BatchMetrics {
 public:
  // Both outlive it.
  BatchMetrics(telemetry::MetricsRegistry& registry, const batches::Batches& batches);

 private:
  telemetry::MetricsRegistry::CollectorHandle batches_;
};

}  // namespace tutti::app
