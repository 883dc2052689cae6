#include "app/load_metrics.h"

#include <memory>

namespace tutti::app {
namespace {

using telemetry::Gauge;
using telemetry::MetricsRegistry;

struct LoadSeries {
  explicit LoadSeries(MetricsRegistry& registry) {
    const auto gauge = [&](const char* name, const char* help) {
      return registry.GetGauge(name, help, {});
    };
    level = gauge("tutti_load_level",
                  "Load level, the higher of queues and memory: 0 green, 1 yellow (interactive "
                  "requests only), 2 red (no requests)");
    memory_level = gauge("tutti_memory_level", "Load level of the process's memory alone, 0 to 2");
    limit = gauge("tutti_memory_limit_bytes", "Memory limit of the process in bytes; 0: unknown");
    planned =
        gauge("tutti_memory_models_bytes", "Memory of the models and their KV caches, in bytes");
    resident = gauge("tutti_memory_resident_bytes",
                     "Resident memory of the process in bytes, sampled 4 times a second");
  }

  Gauge level, memory_level, limit, planned, resident;
};

}  // namespace

LoadMetrics::LoadMetrics(MetricsRegistry& registry, const api::Inference& inference,
                         const MemoryWatch& memory)
    : collector_(registry.AddCollector(
          [series = std::make_shared<LoadSeries>(registry), &inference, &memory] {
            const MemoryWatch::Figures now = memory.figures();
            series->level.Set(static_cast<double>(inference.Load().level));
            series->memory_level.Set(static_cast<double>(now.level));
            series->limit.Set(static_cast<double>(now.limit));
            series->planned.Set(static_cast<double>(now.planned));
            series->resident.Set(static_cast<double>(now.resident));
          })) {}

}  // namespace tutti::app
