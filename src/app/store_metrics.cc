#include "app/store_metrics.h"

#include <cstdint>
#include <memory>

#include "app/raise_to.h"
#include "base/mutex.h"

namespace tutti::app {
namespace {

using telemetry::Counter;
using telemetry::Gauge;
using telemetry::MetricsRegistry;

struct StoreSeries {
  explicit StoreSeries(MetricsRegistry& registry) {
    const auto rows = [&](const char* outcome) {
      return registry.GetCounter("tutti_usage_rows_total", "Rows of the usage ledger, by outcome",
                                 {{"outcome", outcome}});
    };
    written = rows("written");
    lost = rows("lost");
    refused = registry.GetCounter("tutti_usage_refused_total",
                                  "Requests refused because their usage could not be recorded", {});
    const auto error = [&](const char* reason) {
      return registry.GetCounter("tutti_store_errors_total", "Failed store operations, by reason",
                                 {{"reason", reason}});
    };
    store_full = error("store_full");
    store_failed = error("store_failed");
    store_corrupt = error("store_corrupt");
    overloaded = error("overloaded");
    failed =
        registry.GetGauge("tutti_store_failed",
                          "1 if the store has failed; nothing is stored until the next start", {});
    full = registry.GetGauge("tutti_store_full", "1 if the disk has no space for the store", {});
    waiting = registry.GetGauge("tutti_usage_rows_waiting",
                                "Rows of the usage ledger waiting to be written", {});
  }
  void Set(bool healthy, const store::Store::Counts& store, const usage::Ledger::Counts& now) {
    const MutexLock lock(mutex);  // two may scrape at once
    RaiseTo(written, now.written);
    RaiseTo(lost, now.lost);
    RaiseTo(refused, now.refused);
    waiting.Set(static_cast<double>(now.waiting));
    RaiseTo(store_full, store.full);
    RaiseTo(store_failed, store.failed);
    RaiseTo(store_corrupt, store.corrupt);
    RaiseTo(overloaded, store.overloaded);
    failed.Set(healthy ? 0 : 1);
    full.Set(store.is_full ? 1 : 0);
  }

  Mutex mutex;
  Counter written, lost, refused, store_full, store_failed, store_corrupt, overloaded;
  Gauge waiting, failed, full;
};

}  // namespace

StoreMetrics::StoreMetrics(MetricsRegistry& registry, const store::Store& store,
                           const usage::Ledger& ledger)
    : collector_(registry.AddCollector(
          [series = std::make_shared<StoreSeries>(registry), &store, &ledger] {
            series->Set(store.health().ok(), store.counts(), ledger.counts());
          })) {}

}  // namespace tutti::app
