// The gateway's implementations of the engine's interfaces: the bytes of tokens, and metrics of
// events.
#pragma once

#include <memory>
#include <utility>

#include "engine/encoder_engine.h"
#include "engine/engine.h"
#include "engine/token_text.h"
#include "telemetry/encoder_metrics.h"
#include "telemetry/serving_metrics.h"
#include "tokenizer/tokenizer.h"

namespace tutti::gateway {

// The tokenizer of a model as the engine's source of token bytes. Immutable; any thread.
class TokenizerText final : public engine::TokenText {
 public:
  explicit TokenizerText(std::shared_ptr<const tokenizer::Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)) {}

  void AppendBytes(TokenId id, bool first, bool skip_special, std::string& bytes) const override {
    tokenizer_->AppendPiece(id, first, {.skip_special = skip_special, .strip_space_prefix = false},
                            bytes);
  }
  bool IsSpecial(TokenId id) const override {
    return tokenizer_->vocabulary().Contains(id) && tokenizer_->vocabulary().IsSpecial(id);
  }

 private:
  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
};

// EngineMetrics, EncoderEngineMetrics: engine observers that update the metrics of a model. Called
// on the engine thread; every call is cheap (telemetry/serving_metrics.h).
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
