// JobMetrics: durable jobs, as the scraper sees them.
#pragma once

#include "services/jobs/jobs.h"
#include "telemetry/metrics.h"

namespace tutti::app {

class JobMetrics {
 public:
  // Both outlive it.
  JobMetrics(telemetry::MetricsRegistry& registry, const jobs::Jobs& jobs);

 private:
  telemetry::MetricsRegistry::CollectorHandle jobs_;
};

}  // namespace tutti::app
