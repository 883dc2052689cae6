// BatchMetrics: batches and their lines, as the scraper sees them.
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
