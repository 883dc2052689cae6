// LoadMetrics: Prometheus metrics of load and memory relative to the limits of the process.
#pragma once

#include "api/inference.h"
#include "app/memory_watch.h"
#include "telemetry/metrics.h"

namespace tutti::app {

class LoadMetrics {
 public:
  // All outlive it.
  LoadMetrics(telemetry::MetricsRegistry& registry, const api::Inference& inference,
              const MemoryWatch& memory);

 private:
  telemetry::MetricsRegistry::CollectorHandle collector_;
};

}  // namespace tutti::app
