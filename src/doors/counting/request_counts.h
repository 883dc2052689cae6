// What every door tells its metrics of a request that was answered well, in the same words: as what
// it counts, and where its time went. Any thread; `metrics` may be null.
#pragma once

#include "api/encoding.h"
#include "api/types.h"
#include "kserve/model.h"
#include "telemetry/door_metrics.h"
#include "telemetry/labels.h"

namespace tutti::counting {

// What requests to a KServe model count as.
telemetry::OpKind OpOf(kserve::ModelConfig::Task task);

void CountStages(const api::Timings& timings, telemetry::DoorMetrics* metrics);
void CountStages(const api::EncodeTimings& timings, telemetry::DoorMetrics* metrics);
// Nothing for what is no encoding.
void CountStages(telemetry::OpKind op, const kserve::Spent& spent, telemetry::DoorMetrics* metrics);

}  // namespace tutti::counting
