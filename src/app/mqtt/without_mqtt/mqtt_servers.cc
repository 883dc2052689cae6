// In place of ../mqtt_servers.cc in builds without MQTT.
#include "app/mqtt/mqtt_servers.h"

#include "app/config/settings.h"

namespace tutti::app {
namespace {

class NoServers final : public MqttServers {
 public:
  Status Start() override { return OkStatus(); }
  Result<std::function<void()>> LoadTls(const Settings&) override {
    return std::function<void()>([] {});
  }
  std::string addresses() const override { return ""; }
  LiveReport::ListClients client_list() const override { return nullptr; }
  void Announce() override {}
  void Revoke(const std::string&) override {}
  void Resume() override {}
  void Stop() override {}
};

Status Missing(const std::string& name) {
  return BadValue(name,
                  name + " cannot be used: this program was built without MQTT (TUTTI_MQTT=OFF)");
}

}  // namespace

Result<std::unique_ptr<MqttServers>> MqttServers::Create(const Settings& settings,
                                                         const Dependencies&) {
  for (const char* const port : {"mqtt-port", "mqtt.websocket_port"}) {
    if (settings.Int(port) != 0) return Missing(port);
  }
  if (settings.IsSet("mqtt.url")) return Missing("mqtt.url");
  if (!settings.mqtt_projects().empty()) return Missing("mqtt.project");
  return std::unique_ptr<MqttServers>(std::make_unique<NoServers>());
}

}  // namespace tutti::app
