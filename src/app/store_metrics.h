// StoreMetrics: Prometheus metrics of the store and the ledger, which show a full disk early.
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
