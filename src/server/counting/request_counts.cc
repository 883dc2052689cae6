#include "server/counting/request_counts.h"

namespace tutti::counting {

using telemetry::OpKind;

OpKind OpOf(kserve::ModelConfig::Task task) {
  switch (task) {
    case kserve::ModelConfig::Task::kEmbed:
      return OpKind::kEmbed;
    case kserve::ModelConfig::Task::kScore:
      return OpKind::kScore;
    case kserve::ModelConfig::Task::kGenerate:
      return OpKind::kGenerate;
    case kserve::ModelConfig::Task::kOther:
      break;
  }
  return OpKind::kOther;
}

void CountStages(const api::Timings& timings, telemetry::ServerMetrics* metrics) {
  if (metrics == nullptr) return;
  metrics->Stage("tokenize", timings.prepare);
  metrics->Stage("queue", timings.queue);
  metrics->Stage("prefill", timings.prefill);
  metrics->Stage("decode", timings.decode);
}

void CountStages(const api::EncodeTimings& timings, telemetry::ServerMetrics* metrics) {
  if (metrics == nullptr) return;
  metrics->Stage("tokenize", timings.prepare);
  metrics->Stage("queue", timings.queue);
  metrics->Stage("encode", timings.inference);
}

void CountStages(OpKind op, const kserve::Spent& spent, telemetry::ServerMetrics* metrics) {
  if (op != OpKind::kEmbed && op != OpKind::kScore) return;
  CountStages({.prepare = spent.input, .queue = spent.queue, .inference = spent.infer}, metrics);
}

}  // namespace tutti::counting
