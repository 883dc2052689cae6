#include "app/loading/encoder_parts.h"

#include <string>
#include <utility>

namespace tutti::app {

std::shared_ptr<gateway::ServedEncoder> ConnectEncoder(
    const LoadContext& context, const kernels::KernelTable& table,
    const engine::EncoderOptions& options, const api::ModelInfo& info,
    std::unique_ptr<engine::EncoderRunner> runner, std::shared_ptr<Device> device) {
  auto parts = std::make_shared<EncoderParts>();
  parts->device = std::move(device);
  parts->runner = std::move(runner);
  auto encoder = std::make_shared<gateway::ServedEncoder>();
  encoder->max_tokens = parts->runner->limits().max_item_tokens;
  if (context.metrics != nullptr) {
    parts->metrics = std::make_shared<telemetry::EncoderMetrics>(
        *context.metrics,
        telemetry::EncoderMetrics::Options{.model = info.id,
                                           .max_tokens = encoder->max_tokens,
                                           .with_decoder = info.generates,
                                           .version = context.version,
                                           .isa = std::string(kernels::IsaName(table.isa)),
                                           .architecture = info.architecture,
                                           .quantisation = info.quantisation,
                                           .digest = info.digest});
    parts->observer = std::make_unique<gateway::EncoderEngineMetrics>(*parts->metrics);
  }
  parts->engine = std::make_unique<engine::EncoderEngine>(
      options,
      engine::EncoderDependencies{.runner = parts->runner.get(),
                                  .clock = context.clock,
                                  .observer = parts->observer.get(),
                                  .memory_level = &parts->device->memory_level()},
      &parts->device->loop());
  if (parts->metrics != nullptr) {
    parts->metrics->SetGauges([weak = std::weak_ptr<EncoderParts>(parts), clock = context.clock] {
      const std::shared_ptr<EncoderParts> alive = weak.lock();
      return alive == nullptr ? telemetry::EncoderMetrics::Gauges{}
                              : gateway::ReadGauges(*alive->engine, *clock);
    });
  }
  encoder->engine = std::shared_ptr<engine::EncoderEngine>(parts, parts->engine.get());
  encoder->metrics = parts->metrics;
  return encoder;
}

}  // namespace tutti::app
