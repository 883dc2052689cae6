// LoadedDecoder: all objects of one served decoder. Made by its plan; shared, and destroyed with
// the last user.
#pragma once

#include <memory>

#include "app/loading/device.h"
#include "app/loading/model_loader.h"
#include "engine/encoder_engine.h"
#include "engine/engine.h"
#include "gateway/engine_metrics.h"
#include "gateway/served_model.h"
#include "gateway/tokenizer_text.h"
#include "kernels/kernels.h"
#include "model/weights.h"
#include "runner/cpu_decoder_embedder.h"
#include "runner/cpu_model_runner.h"

namespace tutti::app {

// Destroyed from the last member up: the engines first, then the objects that they use.
struct LoadedDecoder {
  std::shared_ptr<Device> device;
  std::shared_ptr<const model::Weights> weights;
  std::unique_ptr<runner::CpuModelRunner> runner, draft;
  std::unique_ptr<gateway::TokenizerText> text;
  std::shared_ptr<telemetry::ServingMetrics> metrics;
  std::unique_ptr<gateway::EngineMetrics> observer;
  std::unique_ptr<engine::Engine> engine;
  // Set if the decoder also gives vectors.
  std::unique_ptr<runner::CpuDecoderEmbedder> embedder;
  std::shared_ptr<telemetry::EncoderMetrics> encoder_metrics;
  std::unique_ptr<gateway::EncoderEngineMetrics> encoder_observer;
  std::unique_ptr<engine::EncoderEngine> encoder;
};

// Adds embeddings to a decoder: the normalized hidden state of the last token. Call it before the
// model is served. Errors: out_of_memory.
Status AddVectors(const LoadContext& context, const model::VectorModules& modules,
                  const kernels::KernelTable* table, const std::shared_ptr<LoadedDecoder>& instance,
                  gateway::ServedModel& served);

}  // namespace tutti::app
