// Prometheus metrics of the servers of chat over MQTT, as those of service_metrics.h.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "app/service_metrics.h"
#include "server/mqtt/chat/admission_queue.h"
#include "telemetry/metrics.h"

namespace tutti::app {

// The MQTT listener ("listener") or broker connection ("broker"), with the numbers of the
// statistics line in the log (mqtt.statistics). `statistics` must return nullopt once its source is
// destroyed.
Collectors CollectMqtt(telemetry::MetricsRegistry& registry, const std::string& server,
                       std::function<std::optional<mqtt::chat::Statistics>()> statistics);

// Clients of the MQTT listener. `clients` must return nullopt once its source is destroyed.
Collectors CollectMqttClients(telemetry::MetricsRegistry& registry,
                              std::function<std::optional<int>()> clients);

}  // namespace tutti::app
