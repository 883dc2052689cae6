// SampledMetrics: counters and gauges that are read from a struct of counts at each scrape, defined
// by a table of rows. Filled by one thread; scraping threads read what it has collected.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "telemetry/metrics.h"

namespace tutti::telemetry {

template <typename Counts>
class SampledMetrics {
 public:
  // A member of Counts (`&Counts::failed`), or a function of it.
  using Value = std::function<double(const Counts&)>;

  // `registry` outlives it and what it returns.
  explicit SampledMetrics(MetricsRegistry& registry) : registry_(registry) {}

  // A row each. A counter never falls: a lower value changes nothing.
  void AddCounter(const std::string& name, const std::string& help, MetricLabels labels,
                  Value value) {
    table_->counters.emplace_back(registry_.GetCounter(name, help, std::move(labels)),
                                  std::move(value));
  }
  void AddGauge(const std::string& name, const std::string& help, MetricLabels labels,
                Value value) {
    table_->gauges.emplace_back(registry_.GetGauge(name, help, std::move(labels)),
                                std::move(value));
  }
  // One counter for each value of the label `key`, along with `labels`.
  void AddCounters(const std::string& name, const std::string& help, const std::string& key,
                   std::initializer_list<std::pair<const char*, Value>> rows,
                   MetricLabels labels = {}) {
    for (const auto& [label, value] : rows) {
      labels[key] = label;
      AddCounter(name, help, labels, value);
    }
  }

  // Reads all rows from `sample` at each exposition, as long as the handle exists and possibly
  // during its destruction; nothing: they stay as they are.
  [[nodiscard]] MetricsRegistry::CollectorHandle Collect(
      std::function<std::optional<Counts>()> sample) {
    return registry_.AddCollector([table = table_, sample = std::move(sample)] {
      if (const std::optional<Counts> now = sample()) table->Set(*now);
    });
  }

 private:
  struct Table {
    void Set(const Counts& now) {
      const MutexLock lock(mutex);  // two may scrape at once
      for (auto& [counter, value] : counters) {
        const double more = value(now) - counter.Value();
        if (more > 0) counter.Add(more);
      }
      for (auto& [gauge, value] : gauges) gauge.Set(value(now));
    }

    Mutex mutex;
    std::vector<std::pair<Counter, Value>> counters;
    std::vector<std::pair<Gauge, Value>> gauges;
  };

  MetricsRegistry& registry_;
  const std::shared_ptr<Table> table_ = std::make_shared<Table>();
};

}  // namespace tutti::telemetry
