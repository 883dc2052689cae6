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
                  "0 green, 1 yellow: only interactive requests are taken in, 2 red: none; the "
                  "worse of queues and memory");
    memory_level = gauge("tutti_memory_level", "The same of the process's memory alone");
    limit = gauge("tutti_memory_limit_bytes", "Memory that the process may take; 0 = not known");
    planned = gauge("tutti_memory_models_bytes", "Of it, what the models and their KV caches take");
    resident = gauge("tutti_memory_resident_bytes", "What is resident, looked at 4 times a second");
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
