// EngineMetrics, EncoderEngineMetrics: engine observers that update the metrics of a model. Called
// on the engine thread; every call is cheap (telemetry/serving_metrics.h).
#pragma once

#include "engine/encoder_engine.h"
#include "engine/engine.h"
#include "telemetry/encoder_metrics.h"
#include "telemetry/serving_metrics.h"

namespace tutti::gateway {

class EngineMetrics final : public engine::EngineObserver {
 public:
  explicit EngineMetrics(telemetry::ServingMetrics& metrics) : metrics_(metrics) {}

  void OnStep(const engine::StepEvent& event) override;
  void OnFirstRun(Duration waited) override { metrics_.QueueWait(waited); }
  void OnFirstToken(Duration since_accepted) override { metrics_.FirstToken(since_accepted); }
  void OnNextToken(Duration gap) override { metrics_.InterToken(gap); }
  void OnPrefixLookup(int queried_tokens, int hit_tokens) override;
  void OnPreemption(std::string_view reason, int tokens_to_recompute) override;
  void OnFinished(const engine::RequestEvent& event) override;

 private:
  telemetry::ServingMetrics& metrics_;
};

class EncoderEngineMetrics final : public engine::EncoderObserver {
 public:
  explicit EncoderEngineMetrics(telemetry::EncoderMetrics& metrics) : metrics_(metrics) {}

  void OnBatch(const engine::BatchEvent& event) override;
  void OnFinished(const engine::EncodingEvent& event) override;

 private:
  telemetry::EncoderMetrics& metrics_;
};

// Current gauges of an engine; called for each scrape.
telemetry::ServingMetrics::EngineGauges ReadGauges(const engine::Engine& engine,
                                                   const Clock& clock);
telemetry::EncoderMetrics::Gauges ReadGauges(const engine::EncoderEngine& engine,
                                             const Clock& clock);

}  // namespace tutti::gateway
