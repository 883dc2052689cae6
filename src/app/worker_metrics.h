// WorkerMetrics: Prometheus metrics of a frontend's workers.
#pragma once

#include "app/remote_models.h"
#include "telemetry/metrics.h"

namespace tutti::app {

class WorkerMetrics {
 public:
  // Both must outlive it. `broker`: whether workers can also connect through a broker.
  WorkerMetrics(telemetry::MetricsRegistry& registry, RemoteModels& models, bool broker);

 private:
  telemetry::MetricsRegistry::CollectorHandle collector_;
};

}  // namespace tutti::app
