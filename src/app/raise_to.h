// A counter of the scraper that follows one of ours.
#pragma once

#include <concepts>

#include "telemetry/metrics.h"

namespace tutti::app {

// Until `counter` has `total`; never lower. One thread at a time.
void RaiseTo(telemetry::Counter& counter, std::integral auto total) {
  const double more = static_cast<double>(total) - counter.Value();
  if (more > 0) counter.Add(more);
}

}  // namespace tutti::app
