// Reports successful requests to the metrics, in the same way for all servers: their operation, and
// the time of each stage. Any thread; `metrics` may be null.
#pragma once

#include "api/encoding.h"
#include "api/types.h"
#include "protocol/kserve/model.h"
#include "telemetry/labels.h"
#include "telemetry/server_metrics.h"

namespace tutti::counting {

// The operation of requests to a KServe model.
telemetry::OpKind OpOf(kserve::ModelConfig::Task task);

void CountStages(const api::Timings& timings, telemetry::ServerMetrics* metrics);
void CountStages(const api::EncodeTimings& timings, telemetry::ServerMetrics* metrics);
// Does nothing for operations other than encoding.
void CountStages(telemetry::OpKind op, const kserve::Spent& spent,
                 telemetry::ServerMetrics* metrics);

}  // namespace tutti::counting
