// Metrics: a thin facade over prometheus-cpp, so that no other header includes it.
//
// main makes one MetricsRegistry and passes it on; any thread. Handles are valid as long as the
// registry and cost one atomic add (histograms: one uncontended lock). Label values are bounded: at
// most 128 bytes (non-printable characters become '?'), SetOnlyGauge() aside, and at most 100 label
// sets per family; further ones are counted under "other". The exposition escapes label values.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
}  // namespace prometheus

namespace tutti::telemetry {

using MetricLabels = std::map<std::string, std::string>;

class Counter {
 public:
  explicit Counter(prometheus::Counter* counter = nullptr) : counter_(counter) {}
  void Add(double amount = 1);  // amount >= 0
  double Value() const;

 private:
  prometheus::Counter* counter_;
};

class Gauge {
 public:
  explicit Gauge(prometheus::Gauge* gauge = nullptr) : gauge_(gauge) {}
  void Set(double value);
  void Add(double amount);
  double Value() const;

 private:
  prometheus::Gauge* gauge_;
};

class Histogram {
 public:
  explicit Histogram(prometheus::Histogram* histogram = nullptr) : histogram_(histogram) {}
  void Observe(double value);
  uint64_t Count() const;
  double Sum() const;

 private:
  prometheus::Histogram* histogram_;
};

// Upper bounds, ascending, without +Inf.
using Buckets = std::vector<double>;
const Buckets& LatencyBuckets();       // 1 ms .. 2,560 s
const Buckets& ShortLatencyBuckets();  // the same from 0.1 ms: queue wait, stages, steps
const Buckets& BatchBuckets();         // 1 8 16 32 .. 16384: tokens and sequences of a step
const Buckets& ChoiceBuckets();        // 1 2 5 10 20
Buckets SizeBuckets(int64_t limit);    // 1 2 5 10 20 50 .. up to and including the first >= limit

// The series of one metric at one time, for readers in this process.
struct MetricSamples {
  struct Series {
    MetricLabels labels;
    double value = 0;    // of a counter or gauge; of a histogram: the sum of the observed values
    uint64_t count = 0;  // of a histogram: observed values
    std::vector<double> bounds;     // of a histogram, ascending; the last one is infinite
    std::vector<uint64_t> at_most;  // observed values up to each bound, as in the exposition
  };
  std::string name;
  bool histogram = false;
  std::vector<Series> series;
};

class MetricsRegistry {
 public:
  MetricsRegistry();
  ~MetricsRegistry();
  MetricsRegistry(const MetricsRegistry&) = delete;
  MetricsRegistry& operator=(const MetricsRegistry&) = delete;

  // Returns the metric of that name and those labels; makes it on the first call, whose `help` is
  // used. A name belongs to one kind of metric and must not come from a client.
  Counter GetCounter(const std::string& name, const std::string& help, MetricLabels labels = {});
  Gauge GetGauge(const std::string& name, const std::string& help, MetricLabels labels = {});
  Histogram GetHistogram(const std::string& name, const std::string& help, const Buckets& buckets,
                         MetricLabels labels = {});
  // Sets the one series of a gauge whose label values change; an earlier one of the name is
  // removed. Label values may have kMaxInfoBytes.
  static constexpr size_t kMaxInfoBytes = 4096;
  void SetOnlyGauge(const std::string& name, const std::string& help, MetricLabels labels,
                    double value);

  // Registers a function that sets gauges from current values. It is called before each exposition,
  // on the scraping thread, as long as the handle exists. Destroying the handle does not wait for
  // an exposition in progress, so a collector must own what it uses, or hold a weak pointer to it.
  using CollectorHandle = std::shared_ptr<const std::function<void()>>;
  [[nodiscard]] CollectorHandle AddCollector(std::function<void()> collector);

  // Text format 0.0.4.
  std::string Expose() const;
  // The metrics with these names, which are sorted, as Expose() would show them now.
  std::vector<MetricSamples> Sample(std::span<const std::string_view> names) const;
  static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Makes the series of one model, which have labels in common.
struct SeriesMaker {
  MetricsRegistry& registry;
  MetricLabels labels;      // of all its series
  std::string prefix = {};  // of their names

  MetricLabels With(MetricLabels more) const {
    more.insert(labels.begin(), labels.end());
    return more;
  }
  auto Gauge(const std::string& name, const std::string& help, MetricLabels more = {}) const {
    return registry.GetGauge(prefix + name, help, With(std::move(more)));
  }
  auto Counter(const std::string& name, const std::string& help, MetricLabels more = {}) const {
    return registry.GetCounter(prefix + name, help, With(std::move(more)));
  }
  auto Histogram(const std::string& name, const std::string& help, const Buckets& buckets,
                 MetricLabels more = {}) const {
    return registry.GetHistogram(prefix + name, help, buckets, With(std::move(more)));
  }
  // Looked up by name at each call. Models and servers have series of this counter.
  auto RejectedRequests(std::string_view code) const {
    return Counter("tutti_requests_rejected_total", "Requests refused, by error code",
                   {{"code", std::string(code)}});
  }
};

// Counters and gauges that are read from a struct of counts at each scrape, defined by a table of
// rows. Filled by one thread; scraping threads read what it has collected.
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
