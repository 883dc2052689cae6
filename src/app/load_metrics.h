// LoadMetrics: how near the process is to refusing, as the scraper sees it.
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
