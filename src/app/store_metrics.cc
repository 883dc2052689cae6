#include "app/store_metrics.h"

#include <cstdint>
#include <memory>

#include "base/mutex.h"

namespace tutti::app {
namespace {

using telemetry::Counter;
using telemetry::Gauge;
using telemetry::MetricsRegistry;

struct Series {
  explicit Series(MetricsRegistry& registry) {
    const auto rows = [&](const char* outcome) {
      return registry.GetCounter("tutti_usage_rows_total",
                                 "Rows of the usage ledger by what became of them",
                                 {{"outcome", outcome}});
    };
    written = rows("written");
    lost = rows("lost");
    refused =
        registry.GetCounter("tutti_usage_refused_total",
                            "Requests refused because their use could not be written down", {});
    waiting = registry.GetGauge("tutti_usage_rows_waiting",
                                "Rows of the usage ledger that are not written yet", {});
  }
  void Set(const usage::Ledger::Counts& now) {
    const MutexLock lock(mutex);  // two may scrape at once
    const auto reach = [](Counter& counter, uint64_t total) {
      const auto target = static_cast<double>(total);
      if (target > counter.Value()) counter.Add(target - counter.Value());
    };
    reach(written, now.written);
    reach(lost, now.lost);
    reach(refused, now.refused);
    waiting.Set(static_cast<double>(now.waiting));
  }

  Mutex mutex;
  Counter written, lost, refused;
  Gauge waiting;
};

}  // namespace

StoreMetrics::StoreMetrics(MetricsRegistry& registry, const usage::Ledger& ledger)
    : collector_(registry.AddCollector([series = std::make_shared<Series>(registry), &ledger] {
        series->Set(ledger.counts());
      })) {}

}  // namespace tutti::app
