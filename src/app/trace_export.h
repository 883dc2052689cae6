// The export of traces, as the settings and the variables of OpenTelemetry configure it.
#pragma once

#include <memory>

#include "api/request_trace.h"
#include "app/config/settings.h"
#include "app/service_metrics.h"
#include "base/log.h"
#include "base/status.h"
#include "services/traces/exporter.h"
#include "telemetry/metrics.h"

namespace tutti::app {

// Starts the export of `traces`, which must not have begun one yet; null: traces.endpoint is not
// set. `log` outlives the exporter. Errors: invalid_value.
Result<std::unique_ptr<traces::Exporter>> StartTraceExport(
    const Settings& settings, const std::shared_ptr<api::RequestTraces>& traces, Logger* log);

// Requests by what became of their traces. `exporter` outlives the collectors and may be null.
Collectors CollectTraces(telemetry::MetricsRegistry& registry, const traces::Exporter* exporter);

}  // namespace tutti::app
