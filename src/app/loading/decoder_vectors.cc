// A decoder that also gives vectors of texts.
#include <algorithm>
#include <utility>

#include "app/config/encode_options.h"
#include "app/loading/loaded_decoder.h"
#include "model/encoder_config.h"

namespace tutti::app {

Status AddVectors(const LoadContext& context, const model::VectorModules& modules,
                  const kernels::KernelTable* table, const std::shared_ptr<LoadedDecoder>& instance,
                  gateway::ServedModel& served) {
  engine::EncoderOptions options = EncodeOptionsFrom(*context.settings);
  runner::DecoderEmbedderOptions run;
  run.kernels = table;
  run.pool = instance->device->pool();
  if (modules.stated) run.pooling = modules.pooling;
  run.max_items = options.batch_items;
  run.max_tokens = options.batch_tokens;
  run.max_item_tokens = std::min(run.max_item_tokens, served.info.max_model_len);
  ASSIGN_OR_RETURN(instance->embedder, runner::CpuDecoderEmbedder::Create(instance->weights, run));
  const engine::EncoderLimits limits = instance->embedder->limits();
  options.batch_tokens = std::max(options.batch_tokens, limits.max_item_tokens);
  if (context.metrics != nullptr) {
    instance->encoder_metrics = std::make_shared<telemetry::EncoderMetrics>(
        *context.metrics,
        telemetry::EncoderMetrics::Options{
            .model = served.info.id, .max_tokens = limits.max_item_tokens, .beside_decoder = true});
    instance->encoder_observer =
        std::make_unique<gateway::EncoderEngineMetrics>(*instance->encoder_metrics);
  }
  instance->encoder = std::make_unique<engine::EncoderEngine>(
      options,
      engine::EncoderDependencies{.runner = instance->embedder.get(),
                                  .clock = context.clock,
                                  .observer = instance->encoder_observer.get(),
                                  .memory_level = &instance->device->memory_level()},
      &instance->device->loop());
  auto encoder = std::make_shared<gateway::ServedEncoder>();
  encoder->engine = std::shared_ptr<engine::EncoderEngine>(instance, instance->encoder.get());
  // A model that says nothing of vectors gives such of length 1, of its last rows.
  encoder->normalize = !modules.stated || modules.normalize;
  encoder->prompts = modules.prompts;
  encoder->default_prompt = modules.default_prompt;
  encoder->max_tokens = limits.max_item_tokens;
  encoder->metrics = instance->encoder_metrics;
  if (instance->encoder_metrics != nullptr) {
    instance->encoder_metrics->SetGauges(
        [weak = std::weak_ptr<LoadedDecoder>(instance), clock = context.clock] {
          const std::shared_ptr<LoadedDecoder> alive = weak.lock();
          return alive == nullptr ? telemetry::EncoderMetrics::Gauges{}
                                  : gateway::ReadGauges(*alive->encoder, *clock);
        });
  }
  served.encoder = std::move(encoder);
  api::EncoderInfo& info = served.info.encoder.emplace();
  info.width = limits.width;
  for (const auto& [name, text] : modules.prompts) info.prompts.push_back(name);
  info.cuts = context.settings->Text("encode.dimensions") == "any";
  info.pooling = model::PoolingName(run.pooling);
  info.batch_items = options.batch_items;
  info.batch_tokens = options.batch_tokens;
  info.batch_window = options.window;
  return OkStatus();
}

}  // namespace tutti::app
