// CacheMetrics: Prometheus metrics of the caches: outcomes of lookups, entries and bytes.
#pragma once

#include "app/caches.h"
#include "telemetry/metrics.h"

namespace tutti::app {

class CacheMetrics {
 public:
  // `registry` must outlive it. Caches that are off have no series.
  CacheMetrics(telemetry::MetricsRegistry& registry, const Caches& caches);

 private:
  telemetry::MetricsRegistry::CollectorHandle answers_, tier_, rows_, questions_;
};

}  // namespace tutti::app
