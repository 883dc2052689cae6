// PasswordMetrics: Prometheus metrics of password hashing: running and waiting hashes, which show a
// flood of logins.
#pragma once

#include "services/auth/authenticator.h"
#include "telemetry/metrics.h"

namespace tutti::app {

class PasswordMetrics {
 public:
  // Both outlive it.
  PasswordMetrics(telemetry::MetricsRegistry& registry, const auth::Authenticator& authority);

 private:
  telemetry::MetricsRegistry::CollectorHandle collector_;
};

}  // namespace tutti::app
