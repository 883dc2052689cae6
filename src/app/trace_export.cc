#include "app/trace_export.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "app/process/process_name.h"
#include "app/version.h"
#include "base/ascii.h"

namespace tutti::app {
namespace {

// A variable of the OpenTelemetry specification, which its users' deployments set already.
Result<traces::Pairs> PairsOfVariable(const char* name) {
  Result<traces::Pairs> pairs = traces::ParsePairs(EnvironmentText(name));
  if (pairs.ok()) return pairs;
  // Not the value: it may hold a credential.
  return InvalidArgument("invalid_value",
                         "invalid " + std::string(name) + ": " + pairs.status().message());
}

// Milliseconds of OTEL_BSP_SCHEDULE_DELAY; `otherwise` if it is not set.
Result<std::chrono::milliseconds> ScheduleDelay(std::chrono::milliseconds otherwise) {
  const std::string text = EnvironmentText("OTEL_BSP_SCHEDULE_DELAY");
  if (text.empty()) return otherwise;
  const std::optional<int> delay = ParseNumber<int>(text);
  if (!delay.has_value() || *delay < 1 || *delay > 3'600'000) {
    return InvalidArgument("invalid_value",
                           "invalid OTEL_BSP_SCHEDULE_DELAY: expected milliseconds, 1 to 3600000");
  }
  return std::chrono::milliseconds(*delay);
}

// The attributes of this process. Those of the variables go before our own.
Result<traces::Pairs> ResourceAttributes() {
  ASSIGN_OR_RETURN(traces::Pairs resource, PairsOfVariable("OTEL_RESOURCE_ATTRIBUTES"));
  const auto has = [&](const char* name) {
    return std::any_of(resource.begin(), resource.end(),
                       [name](const auto& pair) { return pair.first == name; });
  };
  const std::string service = EnvironmentText("OTEL_SERVICE_NAME");
  if (!service.empty()) {
    std::erase_if(resource, [](const auto& pair) { return pair.first == "service.name"; });
    resource.emplace_back("service.name", service);
  }
  for (const auto& [name, value] : traces::Pairs{{"service.name", "tutti"},
                                                 {"service.version", kVersion},
                                                 {"service.instance.id", NameOfThisProcess()},
                                                 {"host.name", HostName()}}) {
    if (!has(name.c_str())) resource.emplace_back(name, value);
  }
  return resource;
}

}  // namespace

Result<std::unique_ptr<traces::Exporter>> StartTraceExport(
    const Settings& settings, const std::shared_ptr<api::RequestTraces>& traces, Logger* log) {
  const std::string endpoint = settings.Text("traces.endpoint");
  if (endpoint.empty()) return std::unique_ptr<traces::Exporter>();
  traces::Exporter::Options options;
  ASSIGN_OR_RETURN(options.endpoint, traces::ParseEndpoint(endpoint));
  ASSIGN_OR_RETURN(options.headers, PairsOfVariable("OTEL_EXPORTER_OTLP_HEADERS"));
  ASSIGN_OR_RETURN(options.resource, ResourceAttributes());
  ASSIGN_OR_RETURN(options.interval, ScheduleDelay(options.interval));
  options.version = kVersion;
  options.ca_file = settings.Text("traces.ca_file");
  traces->CollectForExport(settings.Number("traces.sample_ratio"));
  return std::make_unique<traces::Exporter>(std::move(options), traces, log);
}

Collectors CollectTraces(telemetry::MetricsRegistry& registry, const traces::Exporter* exporter) {
  if (exporter == nullptr) return {};
  using Stats = traces::ExportStats;
  telemetry::SampledMetrics<Stats> all(registry);
  all.AddCounters(
      "tutti_traces_total", "Traces of requests, by outcome of their export", "outcome",
      {{"exported", &Stats::exported}, {"failed", &Stats::failed}, {"dropped", &Stats::dropped}});
  return {all.Collect([exporter] { return exporter->stats(); })};
}

}  // namespace tutti::app
