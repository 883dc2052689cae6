// EncoderParts: the parts that serve vectors and scores of one model: its runner, engine and
// metrics. Of an encoder, or of a decoder that encodes too or alone.
#pragma once

#include <memory>

#include "api/types.h"
#include "app/loading/model_loader.h"
#include "engine/encoder_engine.h"
#include "engine/encoder_runner.h"
#include "engine/options.h"
#include "gateway/engine_ports.h"
#include "gateway/served_model.h"
#include "kernels/kernels.h"
#include "telemetry/encoder_metrics.h"

namespace tutti::app {

// Shared; destroyed with the last user, from the last member up: the engine first, then the objects
// that it uses.
struct EncoderParts {
  std::shared_ptr<Device> device;
  std::unique_ptr<engine::EncoderRunner> runner;
  std::shared_ptr<telemetry::EncoderMetrics> metrics;  // null without a registry, as `observer`
  std::unique_ptr<gateway::EncoderEngineMetrics> observer;
  std::unique_ptr<engine::EncoderEngine> engine;
};

// Makes the engine and the metrics of `runner`. `info`: the model, complete but for `encoder`.
// Returns what the gateway serves, which owns the parts; of its members engine, metrics and
// max_tokens are set.
std::shared_ptr<gateway::ServedEncoder> ConnectEncoder(
    const LoadContext& context, const kernels::KernelTable& table,
    const engine::EncoderOptions& options, const api::ModelInfo& info,
    std::unique_ptr<engine::EncoderRunner> runner, std::shared_ptr<Device> device);

}  // namespace tutti::app
