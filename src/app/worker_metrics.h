// WorkerMetrics: a front's workers, as the scraper sees them.
#pragma once

#include "app/remote_models.h"
#include "telemetry/metrics.h"

namespace tutti::app {

class WorkerMetrics {
 public:
  // Both outlive it. `broker`: workers come through one too.
  WorkerMetrics(telemetry::MetricsRegistry& registry, RemoteModels& models, bool broker);

 private:
  telemetry::MetricsRegistry::CollectorHandle collector_;
};

}  // namespace tutti::app
