// StoreMetrics: whether what is to be written down is written, as the scraper sees it: a full disk
// shows before callers complain.
#pragma once

#include "services/usage/ledger.h"
#include "store/store.h"
#include "telemetry/metrics.h"

namespace tutti::app {

class StoreMetrics {
 public:
  // All outlive it.
  StoreMetrics(telemetry::MetricsRegistry& registry, const store::Store& store,
               const usage::Ledger& ledger);

 private:
  telemetry::MetricsRegistry::CollectorHandle collector_;
};

}  // namespace tutti::app
