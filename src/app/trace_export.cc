#include "app/trace_export.h"

#include <algorithm>
#include <string>
#include <utility>

#include "app/process/process_name.h"
#include "app/version.h"

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
