// JobMetrics: Prometheus metrics of durable jobs.
#pragma once

#include "services/jobs/jobs.h"
#include "services/webhooks/webhooks.h"
#include "telemetry/metrics.h"

namespace tutti::app {

class JobMetrics {
 public:
  // All outlive it; `webhooks` may be null.
  JobMetrics(telemetry::MetricsRegistry& registry, const jobs::Jobs& jobs,
             const webhooks::Webhooks* webhooks);

 private:
  telemetry::MetricsRegistry::CollectorHandle jobs_;
};

}  // namespace tutti::app
