#include "app/mqtt/mqtt_metrics.h"

#include <utility>

namespace tutti::app {

using telemetry::MetricsRegistry;
using telemetry::SampledMetrics;

Collectors CollectMqtt(MetricsRegistry& registry, const std::string& server,
                       std::function<std::optional<mqtt::chat::Statistics>()> statistics) {
  using Stats = mqtt::chat::Statistics;
  SampledMetrics<Stats> all(registry);
  const telemetry::MetricLabels labels = {{"door", server},
                                          {"server", server}};  // `door` is the older name
  all.AddCounters(
      "tutti_mqtt_messages_total", "MQTT messages, by outcome", "outcome",
      {{"processed", &Stats::processed}, {"error", &Stats::errors}, {"rejected", &Stats::rejected}},
      labels);
  all.AddCounter("tutti_mqtt_answer_seconds_total",
                 "Total time between acceptance and answer of MQTT messages, in seconds", labels,
                 [](const Stats& now) { return ToMillis(now.total) / 1000; });
  all.AddGauge("tutti_mqtt_waiting_messages", "MQTT messages accepted and not yet answered", labels,
               &Stats::waiting);
  return {all.Collect(std::move(statistics))};
}

Collectors CollectMqttClients(MetricsRegistry& registry,
                              std::function<std::optional<int>()> clients) {
  SampledMetrics<int> all(registry);
  all.AddGauge("tutti_mqtt_clients", "Connected clients of the MQTT listener", {},
               [](const int& now) { return now; });
  return {all.Collect(std::move(clients))};
}

}  // namespace tutti::app
