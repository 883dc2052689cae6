#include "app/job_metrics.h"

#include <memory>

#include "app/raise_to.h"
#include "base/mutex.h"

namespace tutti::app {
namespace {

using telemetry::Counter;
using telemetry::Gauge;
using telemetry::MetricsRegistry;

class JobSeries {
 public:
  explicit JobSeries(MetricsRegistry& registry) {
    const auto gauge = [&](const char* state) {
      return registry.GetGauge("tutti_jobs", "Unfinished durable jobs", {{"state", state}});
    };
    queued_ = gauge("queued");
    running_ = gauge("running");
    result_bytes_ =
        registry.GetGauge("tutti_job_result_bytes", "Size of the stored job results, in bytes", {});
    accepted_ = registry.GetCounter("tutti_jobs_accepted_total", "Durable jobs accepted", {});
    const auto attempt = [&](const char* outcome) {
      return registry.GetCounter("tutti_job_attempts_total",
                                 "Attempts to run durable jobs, by outcome",
                                 {{"outcome", outcome}});
    };
    completed_ = attempt("completed");
    failed_ = attempt("failed");
    cancelled_ = attempt("cancelled");
    expired_ = attempt("expired");
    dead_ = attempt("dead");
    retried_ = attempt("retried");
    put_off_ = attempt("put_off");
    fenced_ = registry.GetCounter("tutti_job_fenced_writes_total",
                                  "Job results dropped because the job's lease was lost", {});
    const auto webhook = [&](const char* outcome) {
      return registry.GetCounter("tutti_webhooks_total",
                                 "Attempts to deliver a webhook, by outcome",
                                 {{"outcome", outcome}});
    };
    told_ = webhook("delivered");
    told_later_ = webhook("retried");
    untold_ = webhook("failed");
  }
  void Set(const webhooks::WebhookStats& now) {
    const MutexLock lock(mutex_);
    RaiseTo(told_, now.delivered);
    RaiseTo(told_later_, now.retried);
    RaiseTo(untold_, now.failed);
  }
  void Set(const jobs::JobStats& now) {
    const MutexLock lock(mutex_);  // two may scrape at once
    queued_.Set(static_cast<double>(now.queued));
    running_.Set(static_cast<double>(now.running));
    result_bytes_.Set(static_cast<double>(now.result_bytes));
    RaiseTo(accepted_, now.accepted);
    RaiseTo(completed_, now.completed);
    RaiseTo(failed_, now.failed);
    RaiseTo(cancelled_, now.cancelled);
    RaiseTo(expired_, now.expired);
    RaiseTo(dead_, now.dead);
    RaiseTo(retried_, now.retried);
    RaiseTo(put_off_, now.put_off);
    RaiseTo(fenced_, now.fenced);
  }

 private:
  Mutex mutex_;
  Gauge queued_, running_, result_bytes_;
  Counter accepted_, completed_, failed_, cancelled_, expired_, dead_, retried_, put_off_, fenced_;
  Counter told_, told_later_, untold_;
};

}  // namespace

JobMetrics::JobMetrics(MetricsRegistry& registry, const jobs::Jobs& jobs,
                       const webhooks::Webhooks* webhooks)
    : jobs_(
          registry.AddCollector([series = std::make_shared<JobSeries>(registry), &jobs, webhooks] {
            series->Set(jobs.stats());
            if (webhooks != nullptr) series->Set(webhooks->stats());
          })) {}

}  // namespace tutti::app
