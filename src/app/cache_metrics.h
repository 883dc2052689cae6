// CacheMetrics: what became of requests at the cache of answers, and what it keeps, as the scraper
// sees it.
#pragma once

#include <memory>

#include "services/cache/exact_cache.h"
#include "telemetry/metrics.h"

namespace tutti::app {

class CacheMetrics {
 public:
  // `registry` outlives it. `answers` null: there are none, and no series.
  CacheMetrics(telemetry::MetricsRegistry& registry,
               std::shared_ptr<const cache::ExactCache> answers);

 private:
  telemetry::MetricsRegistry::CollectorHandle collector_;
};

}  // namespace tutti::app
