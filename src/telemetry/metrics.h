// Metrics: a thin facade over prometheus-cpp, so that no other header includes it.
//
// A MetricsRegistry is made once by main and passed on; any thread. Handles stay valid as long as
// it lives and cost one atomic add (histograms: one uncontended lock). Label values are escaped by
// the exposition and bounded here: 128 bytes of text (what is no printable character becomes '?'),
// and at most 100 different label sets a family, further ones counted under "other".
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

  // The one of that name and those labels, made at the first call. `help` of the first call counts.
  // A name belongs to one kind; names are ours, never a client's.
  Counter GetCounter(const std::string& name, const std::string& help, MetricLabels labels = {});
  Gauge GetGauge(const std::string& name, const std::string& help, MetricLabels labels = {});
  Histogram GetHistogram(const std::string& name, const std::string& help, const Buckets& buckets,
                         MetricLabels labels = {});

  // Called before each exposition, on the scraping thread, for as long as the handle lives: sets
  // gauges from live values. Dropping the handle does not wait for an exposition in progress, so a
  // collector must own, or look up weakly, whatever it touches.
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
