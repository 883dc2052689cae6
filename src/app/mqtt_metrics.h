// MqttMetrics: the counts of one way into MQTT, as the scraper sees them: the same numbers as those
// of the statistics line in the log (mqtt.statistics).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "doors/mqtt/profile/waiting_room.h"
#include "telemetry/metrics.h"

namespace tutti::app {

class MqttMetrics {
 public:
  // `door`: "listener" or "broker". `statistics` is called on scraping threads, also while this
  // goes; nothing, once what it asks is gone. The registry outlives it.
  MqttMetrics(telemetry::MetricsRegistry& registry, const std::string& door,
              std::function<std::optional<mqtt::profile::Statistics>()> statistics);

 private:
  telemetry::MetricsRegistry::CollectorHandle collector_;
};

}  // namespace tutti::app
