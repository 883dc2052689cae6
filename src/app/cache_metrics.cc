#include "app/cache_metrics.h"

#include <memory>

#include "app/raise_to.h"
#include "base/mutex.h"

namespace tutti::app {
namespace {

using telemetry::Counter;
using telemetry::Gauge;
using telemetry::MetricsRegistry;

class Series {
 public:
  Series(MetricsRegistry& registry, const char* cache) {
    const auto lookups = [&](const char* outcome) {
      return registry.GetCounter("tutti_cache_lookups_total",
                                 "Requests, of encoders inputs, by what became of them at a cache",
                                 {{"cache", cache}, {"outcome", outcome}});
    };
    hits_ = lookups("hit");
    misses_ = lookups("miss");
    joins_ = lookups("join");
    bypasses_ = lookups("bypass");
    entries_ =
        registry.GetGauge("tutti_cache_entries", "Answers that are kept", {{"cache", cache}});
    bytes_ = registry.GetGauge("tutti_cache_bytes", "Memory of kept answers", {{"cache", cache}});
  }
  template <class Stats>
  void Set(const Stats& now) {
    const MutexLock lock(mutex_);  // two may scrape at once
    RaiseTo(hits_, now.hits);
    RaiseTo(misses_, now.misses);
    if constexpr (requires { now.joins; }) RaiseTo(joins_, now.joins);
    RaiseTo(bypasses_, now.bypasses);
    entries_.Set(static_cast<double>(now.entries));
    bytes_.Set(static_cast<double>(now.bytes));
  }

 private:
  Mutex mutex_;
  Counter hits_, misses_, joins_, bypasses_;
  Gauge entries_, bytes_;
};

template <class Cache>
MetricsRegistry::CollectorHandle Follow(MetricsRegistry& registry, const char* name,
                                        const std::shared_ptr<Cache>& cache) {
  if (cache == nullptr) return nullptr;
  return registry.AddCollector(
      [series = std::make_shared<Series>(registry, name), cache] { series->Set(cache->stats()); });
}

}  // namespace

CacheMetrics::CacheMetrics(MetricsRegistry& registry, const Caches& caches)
    : answers_(Follow(registry, "exact", caches.answers)),
      rows_(Follow(registry, "embedding", caches.rows)) {}

}  // namespace tutti::app
