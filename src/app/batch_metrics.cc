#include "app/batch_metrics.h"

#include <memory>

#include "app/raise_to.h"
#include "base/mutex.h"

namespace tutti::app {
namespace {

using telemetry::Counter;
using telemetry::Gauge;
using telemetry::MetricsRegistry;

class BatchSeries {
 public:
  explicit BatchSeries(MetricsRegistry& registry) {
    open_ = registry.GetGauge("tutti_batches_open", "Unfinished batches", {});
    running_ = registry.GetGauge("tutti_batch_lines_running", "Batch lines being processed", {});
    created_ = registry.GetCounter("tutti_batches_created_total", "Batches accepted", {});
    const auto ended = [&](const char* outcome) {
      return registry.GetCounter("tutti_batches_ended_total", "Finished batches, by outcome",
                                 {{"outcome", outcome}});
    };
    completed_ = ended("completed");
    failed_ = ended("failed");
    expired_ = ended("expired");
    cancelled_ = ended("cancelled");
    const auto attempt = [&](const char* outcome) {
      return registry.GetCounter("tutti_batch_line_attempts_total",
                                 "Attempts to process batch lines, by outcome",
                                 {{"outcome", outcome}});
    };
    lines_completed_ = attempt("completed");
    lines_failed_ = attempt("failed");
    lines_retried_ = attempt("retried");
    lines_put_off_ = attempt("put_off");
  }
  void Set(const batches::BatchStats& now) {
    const MutexLock lock(mutex_);  // two may scrape at once
    open_.Set(static_cast<double>(now.open));
    running_.Set(static_cast<double>(now.running));
    RaiseTo(created_, now.created);
    RaiseTo(completed_, now.completed);
    RaiseTo(failed_, now.failed);
    RaiseTo(expired_, now.expired);
    RaiseTo(cancelled_, now.cancelled);
    RaiseTo(lines_completed_, now.lines_completed);
    RaiseTo(lines_failed_, now.lines_failed);
    RaiseTo(lines_retried_, now.lines_retried);
    RaiseTo(lines_put_off_, now.lines_put_off);
  }

 private:
  Mutex mutex_;
  Gauge open_, running_;
  Counter created_, completed_, failed_, expired_, cancelled_, lines_completed_, lines_failed_,
      lines_retried_, lines_put_off_;
};

}  // namespace

BatchMetrics::BatchMetrics(MetricsRegistry& registry, const batches::Batches& batches)
    : batches_(registry.AddCollector([series = std::make_shared<BatchSeries>(registry), &batches] {
        series->Set(batches.stats());
      })) {}

}  // namespace tutti::app
