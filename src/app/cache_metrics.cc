#include "app/cache_metrics.h"

#include <memory>
#include <utility>

#include "app/raise_to.h"
#include "base/mutex.h"

namespace tutti::app {
namespace {

using telemetry::Counter;
using telemetry::Gauge;
using telemetry::MetricsRegistry;

struct Series {
  explicit Series(MetricsRegistry& registry) {
    const auto lookups = [&](const char* outcome) {
      return registry.GetCounter("tutti_cache_lookups_total",
                                 "Requests by what became of them at a cache of answers",
                                 {{"cache", "exact"}, {"outcome", outcome}});
    };
    hits = lookups("hit");
    misses = lookups("miss");
    joins = lookups("join");
    bypasses = lookups("bypass");
    entries =
        registry.GetGauge("tutti_cache_entries", "Answers that are kept", {{"cache", "exact"}});
    bytes = registry.GetGauge("tutti_cache_bytes", "Memory of kept answers", {{"cache", "exact"}});
  }
  void Set(const cache::CacheStats& now) {
    const MutexLock lock(mutex);  // two may scrape at once
    RaiseTo(hits, now.hits);
    RaiseTo(misses, now.misses);
    RaiseTo(joins, now.joins);
    RaiseTo(bypasses, now.bypasses);
    entries.Set(static_cast<double>(now.entries));
    bytes.Set(static_cast<double>(now.bytes));
  }

  Mutex mutex;
  Counter hits, misses, joins, bypasses;
  Gauge entries, bytes;
};

}  // namespace

CacheMetrics::CacheMetrics(MetricsRegistry& registry,
                           std::shared_ptr<const cache::ExactCache> answers) {
  if (answers == nullptr) return;
  collector_ =
      registry.AddCollector([series = std::make_shared<Series>(registry),
                             answers = std::move(answers)] { series->Set(answers->stats()); });
}

}  // namespace tutti::app
