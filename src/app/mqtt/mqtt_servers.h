// The servers of chat over MQTT, made from the settings (MqttServers).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/config/settings.h"
#include "app/live_report.h"
#include "app/service_metrics.h"
#include "app/state.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "services/sessions/history.h"
#include "services/sessions/message.h"
#include "telemetry/metrics.h"

namespace tutti::app {

// The built-in listener, the client of an external broker, or both, each with the configured
// profiles. Made before the servers start; the services must outlive it. For use by one thread.
class MqttServers {
 public:
  struct Dependencies {  // all outlive the servers
    const Clock* clock = nullptr;
    State* state = nullptr;
    telemetry::MetricsRegistry* metrics = nullptr;
    Logger* log = nullptr;
    // Rate limit of a session (sessions::ChatOptions::admit).
    std::function<Result<sessions::Admitted>(const sessions::SessionKey&)> admit;
  };
  // Makes an object that does nothing if MQTT is not configured. Errors: invalid_value, for the
  // option at fault.
  static Result<std::unique_ptr<MqttServers>> Create(const Settings& settings,
                                                     const Dependencies& dependencies);
  virtual ~MqttServers() = default;  // Stop()

  // Errors: those of Listener::Start.
  virtual Status Start() = 0;
  // As Listener::LoadTls(), with the files of `settings`; does nothing without a listener.
  virtual Result<std::function<void()>> LoadTls(const Settings& settings) = 0;
  // " and mqtt://127.0.0.1:1883, and through mqtts://broker:8883", or nothing; after Start().
  virtual std::string addresses() const = 0;
  // Lists the clients of the listener; null without one.
  virtual LiveReport::ListClients client_list() const = 0;
  virtual void Announce() = 0;  // publishes the status topic again after the served models changed
  // Ends the connections of a credential that is no longer valid.
  virtual void Revoke(const std::string& credential) = 0;
  virtual void Resume() = 0;  // delivers replies of an earlier process; after the models are loaded
  virtual void Stop() = 0;    // publishes that the server is offline, and stops. Idempotent
};

}  // namespace tutti::app
