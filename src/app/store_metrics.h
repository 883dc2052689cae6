// StoreMetrics: whether what is to be written down is written, as the scraper sees it: a full disk
// shows before callers complain.
#pragma once

#include "services/usage/ledger.h"
#include "telemetry/metrics.h"

namespace tutti::app {

class StoreMetrics {
 public:
  // Both outlive it.
  StoreMetrics(telemetry::MetricsRegistry& registry, const usage::Ledger& ledger);

 private:
  telemetry::MetricsRegistry::CollectorHandle collector_;
};

}  // namespace tutti::app
