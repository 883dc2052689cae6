#include "telemetry/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/utf8.h"

namespace tutti::telemetry {
namespace {

constexpr size_t kMaxLabelBytes = 128;
constexpr size_t kMaxSeries = 100;  // label sets of one family, then "other"

// Well-formed text without control characters, so that a hostile name can neither break a line nor
// a dashboard; names of models keep their letters, as Prometheus reads UTF-8.
std::string BoundedLabel(const std::string& value, size_t max_bytes = kMaxLabelBytes) {
  std::string out;
  for (size_t at = 0; at < value.size();) {
    const CodePoint next = DecodeAt(value, at);
    // U+0080 to U+009F are control characters too, and U+2028, U+2029 end lines for some readers.
    const char32_t point = next.code_point;
    const bool shown = next.valid && point >= 0x20 && (point < 0x7F || point > 0x9F) &&
                       point != 0x2028 && point != 0x2029;
    const std::string_view written =
        shown ? std::string_view(value).substr(at, next.length) : std::string_view("?");
    if (out.size() + written.size() > max_bytes) break;
    out += written;
    at += next.length;
  }
  return out;
}

}  // namespace

void Counter::Add(double amount) {
  if (counter_ != nullptr) counter_->Increment(amount);
}
double Counter::Value() const { return counter_ == nullptr ? 0 : counter_->Value(); }
void Gauge::Set(double value) {
  if (gauge_ != nullptr) gauge_->Set(value);
}
void Gauge::Add(double amount) {
  if (gauge_ != nullptr) gauge_->Increment(amount);
}
double Gauge::Value() const { return gauge_ == nullptr ? 0 : gauge_->Value(); }
void Histogram::Observe(double value) {
  if (histogram_ != nullptr) histogram_->Observe(value);
}
uint64_t Histogram::Count() const {
  return histogram_ == nullptr ? 0 : histogram_->Collect().histogram.sample_count;
}
double Histogram::Sum() const {
  return histogram_ == nullptr ? 0 : histogram_->Collect().histogram.sample_sum;
}

const Buckets& LatencyBuckets() {
  static const Buckets buckets = {.001, .0025, .005, .01, .02, .04, .06, .08, .1,  .25, .5,  .75,
                                  1,    2.5,   5,    7.5, 10,  20,  40,  80,  160, 640, 2560};
  return buckets;
}

const Buckets& ShortLatencyBuckets() {
  static const Buckets buckets = [] {
    Buckets all = {.0001, .00025, .0005};
    all.insert(all.end(), LatencyBuckets().begin(), LatencyBuckets().end());
    return all;
  }();
  return buckets;
}

const Buckets& BatchBuckets() {
  static const Buckets buckets = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
  return buckets;
}

const Buckets& ChoiceBuckets() {
  static const Buckets buckets = {1, 2, 5, 10, 20};
  return buckets;
}

Buckets SizeBuckets(int64_t limit) {
  Buckets buckets;
  for (double decade = 1;; decade *= 10) {
    for (const double step : {1.0, 2.0, 5.0}) {
      buckets.push_back(decade * step);
      if (buckets.back() >= static_cast<double>(limit)) return buckets;
    }
  }
}

struct MetricsRegistry::Impl {
  Mutex mutex;
  prometheus::Registry registry;
  std::map<std::string, std::set<MetricLabels>> series GUARDED_BY(mutex);
  std::vector<std::weak_ptr<const std::function<void()>>> collectors GUARDED_BY(mutex);
  std::map<std::string, std::pair<MetricLabels, prometheus::Gauge*>> only GUARDED_BY(mutex);

  // Called without the lock: a collector may make series, and the last holder of one may be here.
  void RunCollectors() {
    std::vector<CollectorHandle> alive;
    {
      const MutexLock lock(mutex);
      std::erase_if(collectors, [](const auto& collector) { return collector.expired(); });
      for (const auto& collector : collectors) {
        if (CollectorHandle handle = collector.lock(); handle != nullptr)
          alive.push_back(std::move(handle));
      }
    }
    for (const CollectorHandle& collect : alive) (*collect)();
  }

  MetricLabels Bound(const std::string& name, MetricLabels labels) {
    for (auto& [key, value] : labels) value = BoundedLabel(value);
    const MutexLock lock(mutex);
    std::set<MetricLabels>& known = series[name];
    if (known.size() >= kMaxSeries && !known.contains(labels)) {
      for (auto& [key, value] : labels) value = "other";
    }
    known.insert(labels);
    return labels;
  }
};

MetricsRegistry::MetricsRegistry() : impl_(std::make_unique<Impl>()) {}
MetricsRegistry::~MetricsRegistry() = default;

Counter MetricsRegistry::GetCounter(const std::string& name, const std::string& help,
                                    MetricLabels labels) {
  labels = impl_->Bound(name, std::move(labels));
  return Counter(
      &prometheus::BuildCounter().Name(name).Help(help).Register(impl_->registry).Add(labels));
}

Gauge MetricsRegistry::GetGauge(const std::string& name, const std::string& help,
                                MetricLabels labels) {
  labels = impl_->Bound(name, std::move(labels));
  return Gauge(
      &prometheus::BuildGauge().Name(name).Help(help).Register(impl_->registry).Add(labels));
}

void MetricsRegistry::SetOnlyGauge(const std::string& name, const std::string& help,
                                   MetricLabels labels, double value) {
  for (auto& [key, text] : labels) text = BoundedLabel(text, kMaxInfoBytes);
  prometheus::Family<prometheus::Gauge>& family =
      prometheus::BuildGauge().Name(name).Help(help).Register(impl_->registry);
  const MutexLock lock(impl_->mutex);
  auto& [known, gauge] = impl_->only[name];
  if (gauge == nullptr || known != labels) {
    if (gauge != nullptr) family.Remove(gauge);
    gauge = &family.Add(labels);
    known = std::move(labels);
  }
  gauge->Set(value);
}

Histogram MetricsRegistry::GetHistogram(const std::string& name, const std::string& help,
                                        const Buckets& buckets, MetricLabels labels) {
  labels = impl_->Bound(name, std::move(labels));
  return Histogram(&prometheus::BuildHistogram()
                        .Name(name)
                        .Help(help)
                        .Register(impl_->registry)
                        .Add(labels, buckets));
}

MetricsRegistry::CollectorHandle MetricsRegistry::AddCollector(std::function<void()> collector) {
  auto handle = std::make_shared<const std::function<void()>>(std::move(collector));
  const MutexLock lock(impl_->mutex);
  impl_->collectors.push_back(handle);
  return handle;
}

std::string MetricsRegistry::Expose() const {
  impl_->RunCollectors();
  return prometheus::TextSerializer().Serializer::Serialize(impl_->registry.Collect());
}

std::vector<MetricSamples> MetricsRegistry::Sample(std::span<const std::string_view> names) const {
  impl_->RunCollectors();
  std::vector<MetricSamples> all;
  for (const prometheus::MetricFamily& family : impl_->registry.Collect()) {
    if (!std::binary_search(names.begin(), names.end(), std::string_view(family.name))) continue;
    MetricSamples& samples = all.emplace_back();
    samples.name = family.name;
    samples.histogram = family.type == prometheus::MetricType::Histogram;
    for (const prometheus::ClientMetric& metric : family.metric) {
      MetricSamples::Series& series = samples.series.emplace_back();
      for (const auto& label : metric.label) series.labels[label.name] = label.value;
      if (samples.histogram) {
        series.value = metric.histogram.sample_sum;
        series.count = metric.histogram.sample_count;
        for (const auto& bucket : metric.histogram.bucket) {
          series.bounds.push_back(bucket.upper_bound);
          series.at_most.push_back(bucket.cumulative_count);
        }
      } else {
        series.value = family.type == prometheus::MetricType::Counter ? metric.counter.value
                                                                      : metric.gauge.value;
      }
    }
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return all;
}

}  // namespace tutti::telemetry
