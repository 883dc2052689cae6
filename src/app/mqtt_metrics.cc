#include "app/mqtt_metrics.h"

#include <memory>
#include <utility>

#include "base/mutex.h"

namespace tutti::app {
namespace {

using mqtt::profile::Statistics;
using telemetry::Counter;
using telemetry::MetricsRegistry;

// Prometheus series of one listener. Set() raises each counter to an absolute total.
struct MqttSeries {
  MqttSeries(MetricsRegistry& registry, const std::string& server) {
    const auto messages = [&](const char* outcome) {
      return registry.GetCounter("tutti_mqtt_messages_total", "MQTT messages, by outcome",
                                 {{"door", server}, {"outcome", outcome}});
    };
    processed = messages("processed");
    errors = messages("error");
    rejected = messages("rejected");
    seconds =
        registry.GetCounter("tutti_mqtt_answer_seconds_total",
                            "Total time between acceptance and answer of MQTT messages, in seconds",
                            {{"door", server}});
    waiting = registry.GetGauge("tutti_mqtt_waiting_messages",
                                "MQTT messages accepted and not yet answered", {{"door", server}});
  }
  void Set(const Statistics& now) {
    const MutexLock lock(mutex);  // two may scrape at once
    const auto reach = [](Counter& counter, double total) {
      if (total > counter.Value()) counter.Add(total - counter.Value());
    };
    reach(processed, static_cast<double>(now.processed));
    reach(errors, static_cast<double>(now.errors));
    reach(rejected, static_cast<double>(now.rejected));
    reach(seconds, ToMillis(now.total) / 1000);
    waiting.Set(static_cast<double>(now.waiting));
  }

  Mutex mutex;
  Counter processed, errors, rejected, seconds;
  telemetry::Gauge waiting;
};

}  // namespace

MqttMetrics::MqttMetrics(MetricsRegistry& registry, const std::string& server,
                         std::function<std::optional<Statistics>()> statistics)
    : collector_(registry.AddCollector(
          [series = std::make_shared<MqttSeries>(registry, server), ask = std::move(statistics)] {
            if (const std::optional<Statistics> now = ask()) series->Set(*now);
          })) {}

}  // namespace tutti::app
