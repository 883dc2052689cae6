// MqttMetrics: Prometheus metrics of the MQTT listener or broker connection, with the same numbers
// as the statistics line in the log (mqtt.statistics).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "server/mqtt/profile/admission_queue.h"
#include "telemetry/metrics.h"

namespace tutti::app {

class MqttMetrics {
 public:
  // `server`: "listener" or "broker". `statistics` is called on scraping threads, possibly during
  // the destructor, and must return nullopt once its source is destroyed. The registry must outlive
  // it.
  MqttMetrics(telemetry::MetricsRegistry& registry, const std::string& server,
              std::function<std::optional<mqtt::profile::Statistics>()> statistics);

 private:
  telemetry::MetricsRegistry::CollectorHandle collector_;
};

}  // namespace tutti::app
