// MqttDoors: chat over MQTT, as the settings have it: through our own listener, a broker, or both,
// each with the profiles before it.
//
// Made before the doors start and gone before the services. One thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/mqtt_login.h"
#include "app/mqtt_metrics.h"
#include "app/settings.h"
#include "app/state.h"
#include "base/log.h"
#include "base/status.h"
#include "doors/mqtt/bridge/bridge.h"
#include "doors/mqtt/listener/listener.h"
#include "doors/mqtt/profile/profile.h"
#include "services/sessions/message.h"
#include "telemetry/metrics.h"

namespace tutti::app {

class MqttDoors {
 public:
  struct Dependencies {  // all outlive the doors
    const Clock* clock = nullptr;
    State* state = nullptr;
    telemetry::MetricsRegistry* metrics = nullptr;
    Logger* log = nullptr;
    // Whether a session may say one more thing (sessions::ChatOptions::admit).
    std::function<Result<sessions::Admitted>(const sessions::SessionKey&)> admit;
  };
  // Where nothing is asked for, doors that do nothing. Errors: invalid_value, of the option at
  // fault.
  static Result<std::unique_ptr<MqttDoors>> Create(const Settings& settings,
                                                   const Dependencies& dependencies);
  ~MqttDoors();  // Stop()

  // Errors: those of Listener::Start.
  Status Start();
  // " and mqtt://127.0.0.1:1883, and through mqtts://broker:8883", or nothing; after Start().
  std::string addresses() const;
  void Announce();  // other models are served than before
  void Resume();    // tells what an earlier process owed; once models are loaded
  void Stop();      // says that the server is not there any more. Idempotent

 private:
  MqttDoors() = default;
  std::string ListenerAddresses() const;

  std::unique_ptr<MqttLogin> login_;
  std::unique_ptr<mqtt::listener::Listener> listener_;
  std::unique_ptr<mqtt::bridge::Bridge> bridge_;
  std::shared_ptr<mqtt::profile::Profile> at_listener_, at_broker_;
  std::vector<MqttMetrics> metrics_;
  std::string host_;
  bool tls_ = false;    // of the listener
  std::string broker_;  // its URL; empty: none
  Logger* log_ = nullptr;
  bool started_ = false;
  std::shared_ptr<const void> listening_;  // to revocations; goes before the listener
};

}  // namespace tutti::app
