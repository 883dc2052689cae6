// CacheMetrics: what became of requests at the caches, and what they keep, as the scraper sees it.
#pragma once

#include "app/caches.h"
#include "telemetry/metrics.h"

namespace tutti::app {

class CacheMetrics {
 public:
  // `registry` outlives it. A cache that there is not has no series.
  CacheMetrics(telemetry::MetricsRegistry& registry, const Caches& caches);

 private:
  telemetry::MetricsRegistry::CollectorHandle answers_, tier_, rows_, questions_;
};

}  // namespace tutti::app
