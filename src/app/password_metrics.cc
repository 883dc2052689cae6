#include "app/password_metrics.h"

#include <memory>

#include "app/raise_to.h"
#include "base/mutex.h"

namespace tutti::app {
namespace {

using telemetry::Counter;
using telemetry::Gauge;
using telemetry::MetricsRegistry;

struct PasswordSeries {
  explicit PasswordSeries(MetricsRegistry& registry) {
    const auto hashes = [&](const char* outcome) {
      return registry.GetCounter("tutti_password_hashes_total", "Password hashes, by outcome",
                                 {{"outcome", outcome}});
    };
    const auto gauge = [&](const char* name, const char* help) {
      return registry.GetGauge(name, help, {});
    };
    computed = hashes("computed");
    refused = hashes("refused");
    threads = gauge("tutti_password_threads", "Threads that hash passwords");
    running = gauge("tutti_password_hashes_running", "Password hashes being computed");
    max_running = gauge("tutti_password_hashes_most_running",
                        "Maximum number of password hashes computed at once since the start");
    waiting = gauge("tutti_password_hashes_waiting", "Logins waiting for a hashing thread");
  }
  void Set(const auth::Authenticator::HashCounts& now) {
    const MutexLock lock(mutex);  // two may scrape at once
    RaiseTo(computed, now.computed);
    RaiseTo(refused, now.refused);
    threads.Set(static_cast<double>(now.threads));
    running.Set(static_cast<double>(now.running));
    max_running.Set(static_cast<double>(now.max_running));
    waiting.Set(static_cast<double>(now.waiting));
  }

  Mutex mutex;
  Counter computed, refused;
  Gauge threads, running, max_running, waiting;
};

}  // namespace

PasswordMetrics::PasswordMetrics(MetricsRegistry& registry, const auth::Authenticator& authority)
    : collector_(registry.AddCollector([series = std::make_shared<PasswordSeries>(registry),
                                        &authority] { series->Set(authority.hash_counts()); })) {}

}  // namespace tutti::app
