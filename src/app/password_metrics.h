// PasswordMetrics: what logins with a password cost, as the scraper sees it: how many hashes are
// computed at once and wait, so that a flood of logins shows.
#pragma once

#include "services/auth/authority.h"
#include "telemetry/metrics.h"

namespace tutti::app {

class PasswordMetrics {
 public:
  // Both outlive it.
  PasswordMetrics(telemetry::MetricsRegistry& registry, const auth::Authority& authority);

 private:
  telemetry::MetricsRegistry::CollectorHandle collector_;
};

}  // namespace tutti::app
