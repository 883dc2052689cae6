// Chat over MQTT, made from the settings: its servers (MqttServers), and the rates of its sessions
// (MqttRates).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "app/config/mqtt_projects.h"
#include "app/config/settings.h"
#include "app/live_report.h"
#include "app/mqtt/mqtt_login.h"
#include "app/service_metrics.h"
#include "app/state.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "server/mqtt/bridge/bridge.h"
#include "server/mqtt/chat/profile.h"
#include "server/mqtt/listener/listener.h"
#include "services/limits/limiter.h"
#include "services/sessions/history.h"
#include "services/sessions/message.h"
#include "telemetry/metrics.h"

namespace tutti::app {

// Rate limits of sessions, from the `rate` of their project in the settings.
//
// All protocols share one object, so that a session cannot double its rate by using two of them.
// Sessions of other tenants or without a configured project are not limited. Used on the sessions'
// strand only.
class MqttRates {
 public:
  // `tenant`: the projects'. `clock` outlives it; `unix_s`: the wall clock.
  MqttRates(const std::vector<MqttProject>& projects, std::string tenant, const Clock* clock,
            std::function<int64_t()> unix_s);

  // Counts one message of the session. The count becomes final when the returned function is called
  // and is reverted if that function is destroyed without a call. Errors: rate_limit_exceeded, with
  // retry-after; overloaded (too many sessions).
  Result<sessions::Admitted> Admit(const sessions::SessionKey& key);

 private:
  const std::string tenant_;
  std::map<std::string, limits::Window> rates_;  // by project; those that have one
  const Clock& clock_;
  limits::Limiter limiter_;
  TimePoint tidied_;
};

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
  ~MqttServers();  // Stop()

  // Errors: those of Listener::Start.
  Status Start();
  // As Listener::LoadTls(), with the files of `settings`; does nothing without a listener.
  Result<std::function<void()>> LoadTls(const Settings& settings);
  // " and mqtt://127.0.0.1:1883, and through mqtts://broker:8883", or nothing; after Start().
  std::string addresses() const;
  // Lists the clients of the listener; null without one.
  LiveReport::ListClients client_list() const;
  void Announce();  // publishes the status topic again after the served models changed
  // Ends the connections of a credential that is no longer valid.
  void Revoke(const std::string& credential);
  void Resume();  // delivers replies of an earlier process; after the models are loaded
  void Stop();    // publishes that the server is offline, and stops. Idempotent

 private:
  MqttServers() = default;
  std::string ListenerAddresses() const;

  std::unique_ptr<MqttLogin> login_;
  std::shared_ptr<mqtt::listener::Listener> listener_;  // a scrape may hold it too
  std::unique_ptr<mqtt::bridge::Bridge> bridge_;
  std::shared_ptr<mqtt::chat::Profile> at_listener_, at_broker_;
  std::vector<Collectors> metrics_;
  std::string host_;
  bool tls_ = false;    // of the listener
  std::string broker_;  // its URL; empty: none
  Logger* log_ = nullptr;
  bool started_ = false;
  std::shared_ptr<const void> listening_;  // to revocations; goes before the listener
};

}  // namespace tutti::app
