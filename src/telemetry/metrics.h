// Metrics: a thin facade over prometheus-cpp, so that no other header includes it.
//
// main makes one MetricsRegistry and passes it on; any thread. Handles are valid as long as the
// registry and cost one atomic add (histograms: one uncontended lock). Label values are bounded: at
// most 128 bytes (non-printable characters become '?'), and at most 100 label sets per family;
// further ones are counted under "other". The exposition escapes label values.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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

  // Registers a function that sets gauges from current values. It is called before each exposition,
  // on the scraping thread, as long as the handle exists. Destroying the handle does not wait for
  // an exposition in progress, so a collector must own what it uses, or hold a weak pointer to it.
  using CollectorHandle = std::shared_ptr<const std::function<void()>>;
  [[nodiscard]] CollectorHandle AddCollector(std::function<void()> collector);

  // Text format 0.0.4.
  std::string Expose() const;
  static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::telemetry
