#include "app/cache_metrics.h"

#include <memory>

#include "app/raise_to.h"
#include "base/mutex.h"

namespace tutti::app {
namespace {

using telemetry::Counter;
using telemetry::Gauge;
using telemetry::MetricsRegistry;

class LookupSeries {
 public:
  LookupSeries(MetricsRegistry& registry, const char* cache) {
    const auto lookups = [&](const char* outcome) {
      return registry.GetCounter("tutti_cache_lookups_total",
                                 "Cache lookups, by outcome; one for each request to a decoder and "
                                 "each input of an encoder",
                                 {{"cache", cache}, {"outcome", outcome}});
    };
    hits_ = lookups("hit");
    misses_ = lookups("miss");
    joins_ = lookups("join");
    bypasses_ = lookups("bypass");
    entries_ = registry.GetGauge("tutti_cache_entries", "Answers in the cache", {{"cache", cache}});
    bytes_ =
        registry.GetGauge("tutti_cache_bytes", "Memory used by the answers in the cache, in bytes",
                          {{"cache", cache}});
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
  return registry.AddCollector([series = std::make_shared<LookupSeries>(registry, name), cache] {
    series->Set(cache->stats());
  });
}

// What only the semantic one has.
class SemanticSeries {
 public:
  explicit SemanticSeries(MetricsRegistry& registry) : series_(registry, "semantic") {
    const auto lookups = [&](const char* outcome) {
      return registry.GetCounter("tutti_cache_lookups_total",
                                 "Cache lookups, by outcome; one for each request to a decoder and "
                                 "each input of an encoder",
                                 {{"cache", "semantic"}, {"outcome", outcome}});
    };
    guarded_ = lookups("guarded");
    unverified_ = lookups("unverified");
    failed_ = lookups("failed");
    const auto compared = [&](const char* verdict) {
      return registry.GetCounter(
          "tutti_semantic_compared_total",
          "Semantic cache hits that were also computed, by whether both answers agree",
          {{"verdict", verdict}});
    };
    right_ = compared("right");
    wrong_ = compared("wrong");
    rate_ = registry.GetGauge("tutti_semantic_false_hit_rate",
                              "Share of wrong answers among the compared semantic cache hits", {});
    bound_ = registry.GetGauge(
        "tutti_semantic_false_hit_bound",
        "Upper end of the 95 % confidence interval of the semantic false hit rate", {});
    answers_ =
        registry.GetGauge("tutti_semantic_answers",
                          "1 if semantic cache hits are returned, 0 if they are only measured", {});
  }
  void Set(const cache::SemanticStats& now) {
    series_.Set(now);
    const MutexLock lock(mutex_);
    RaiseTo(guarded_, now.guarded);
    RaiseTo(unverified_, now.unverified);
    RaiseTo(failed_, now.failed);
    RaiseTo(right_, now.right);
    RaiseTo(wrong_, now.wrong);
    rate_.Set(now.false_hit_rate);
    bound_.Set(now.false_hit_bound);
    answers_.Set(now.answers ? 1 : 0);
  }

 private:
  LookupSeries series_;
  Mutex mutex_;
  Counter guarded_, unverified_, failed_, right_, wrong_;
  Gauge rate_, bound_, answers_;
};

// What other servers keep too.
struct TierSeries {
  explicit TierSeries(MetricsRegistry& registry) {
    const auto looks = [&](const char* outcome) {
      return registry.GetCounter("tutti_cache_tier_lookups_total",
                                 "Lookups in the shared cache, by outcome", {{"outcome", outcome}});
    };
    const auto writes = [&](const char* outcome) {
      return registry.GetCounter("tutti_cache_tier_writes_total",
                                 "Answers written to the shared cache, by outcome",
                                 {{"outcome", outcome}});
    };
    hits = looks("hit");
    misses = looks("miss");
    failed = looks("failed");
    rejected = registry.GetCounter(
        "tutti_cache_tier_rejected_total",
        "Values of the shared cache that failed their check and were rejected", {});
    written = writes("ok");
    unwritten = writes("failed");
    up = registry.GetGauge("tutti_cache_tier_up", "1 if the shared cache is reachable and in use",
                           {});
  }
  void Set(const cache::RedisTier::Stats& now) {
    const MutexLock lock(mutex);
    RaiseTo(hits, now.hits);
    RaiseTo(misses, now.misses);
    RaiseTo(failed, now.failed);
    RaiseTo(rejected, now.rejected);
    RaiseTo(written, now.written);
    RaiseTo(unwritten, now.unwritten);
    up.Set(now.up ? 1 : 0);
  }

  Mutex mutex;
  Counter hits, misses, failed, rejected, written, unwritten;
  Gauge up;
};

}  // namespace

CacheMetrics::CacheMetrics(MetricsRegistry& registry, const Caches& caches)
    : answers_(Follow(registry, "exact", caches.answers)),
      rows_(Follow(registry, "embedding", caches.rows)) {
  if (caches.tier != nullptr) {
    tier_ = registry.AddCollector([series = std::make_shared<TierSeries>(registry),
                                   tier = caches.tier] { series->Set(tier->stats()); });
  }
  if (caches.questions == nullptr) return;
  questions_ = registry.AddCollector([series = std::make_shared<SemanticSeries>(registry),
                                      cache = caches.questions] { series->Set(cache->stats()); });
}

}  // namespace tutti::app
