// Sets a Prometheus counter to an absolute value.
#pragma once

#include <concepts>

#include "telemetry/metrics.h"

namespace tutti::app {

// Raises `counter` to `total`; never lowers it. One thread at a time.
void RaiseTo(telemetry::Counter& counter, std::integral auto total) {
  const double more = static_cast<double>(total) - counter.Value();
  if (more > 0) counter.Add(more);
}

}  // namespace tutti::app
