#include "app/mqtt/mqtt_servers.h"

#include <chrono>
#include <random>
#include <utility>

#include "app/config/auth_options.h"
#include "app/config/mqtt_projects.h"
#include "app/config/options.h"
#include "app/mqtt/mqtt_login.h"
#include "app/mqtt/mqtt_metrics.h"
#include "app/version.h"
#include "base/clock.h"
#include "base/url.h"
#include "server/mqtt/bridge/bridge.h"
#include "server/mqtt/chat/profile.h"
#include "server/mqtt/chat/topics.h"
#include "server/mqtt/listener/listener.h"
#include "services/auth/grant.h"
#include "services/auth/principal.h"

namespace tutti::app {

namespace {

mqtt::chat::ProjectSettings ProjectOf(const MqttProject& project, const std::string& tenant) {
  return {.name = project.name,
          .tenant = tenant,
          .model = project.model,
          .reply_format =
              project.json ? mqtt::chat::ReplyFormat::kJson : mqtt::chat::ReplyFormat::kText,
          .stream = project.stream};
}

// Sets the projects' prompts; projects without one keep the prompt that clients have set.
void SetPrompts(const std::vector<MqttProject>& projects, const std::string& tenant,
                sessions::Sessions& sessions, Logger* log) {
  for (const MqttProject& project : projects) {
    if (project.system_prompt.empty()) continue;
    sessions.SetProjectPrompt(tenant, project.name, project.system_prompt,
                              [log, name = project.name](const Result<int64_t>& version) {
                                if (version.ok()) return;
                                log->Error(
                                    "mqtt.project_prompt",
                                    {{"project", name}, {"why", version.status().message()}});
                              });
  }
}

mqtt::chat::ProfileOptions ProfileOf(const Settings& settings,
                                     const std::vector<MqttProject>& projects) {
  mqtt::chat::ProfileOptions options;
  options.prefix = settings.Text("mqtt.prefix");
  options.node = settings.Text("mqtt.node");
  options.tenant = settings.Text("mqtt.tenant");
  options.version = kVersion;
  options.strict = settings.On("strict");
  for (const MqttProject& project : projects)
    options.projects.push_back(ProjectOf(project, options.tenant));
  return options;
}

mqtt::listener::ListenerOptions ListenerOf(const Settings& settings) {
  mqtt::listener::ListenerOptions options;
  SetHostAndTls(settings, options);
  const auto port_of = [&](const char* key) {
    const int port = static_cast<int>(settings.Int(key));
    return port == 0 ? -1 : port;
  };
  options.port = port_of("mqtt-port");
  options.websocket_port = port_of("mqtt.websocket_port");
  options.cors_origins = SplitList(settings.Text("cors-origin"));
  options.allowed_hosts = SplitList(settings.Text("allowed-hosts"));
  return options;
}

Result<mqtt::bridge::BridgeOptions> BridgeOf(const Settings& settings,
                                             const mqtt::chat::ProfileOptions& profile) {
  mqtt::bridge::BridgeOptions options;
  options.broker = settings.Text("mqtt.url");
  options.client_id = "tutti-" + profile.node;
  options.username = settings.Text("mqtt.username");
  options.password_file = settings.Text("mqtt.password_file");
  options.tls_ca_file = settings.Text("mqtt.ca_file");
  options.tls_cert_file = settings.Text("mqtt.cert_file");
  options.tls_key_file = settings.Text("mqtt.key_file");
  ASSIGN_OR_RETURN(const mqtt::chat::NativeTopics topics,
                   mqtt::chat::NativeTopics::Make(profile.prefix));
  options.will = mqtt::chat::StatusTopic::Will(profile, topics);
  return options;
}

// Checked even if MQTT is off, so that errors are found before it is switched on.
Status CheckSettings(const Settings& settings) {
  if (!settings.IsSet("mqtt.url")) {
    for (const char* const name : {"mqtt.username", "mqtt.password_file", "mqtt.ca_file",
                                   "mqtt.cert_file", "mqtt.key_file"}) {
      if (!settings.IsSet(name)) continue;
      return BadValue(name, std::string(name) + " is for a broker: it needs mqtt.url");
    }
  }
  if (Status status = auth::CheckName(settings.Text("mqtt.tenant"), "tenant"); !status.ok())
    return std::move(status).WithParam("mqtt.tenant");
  if (Status status = mqtt::chat::NativeTopics::Make(settings.Text("mqtt.prefix")).status();
      !status.ok())
    return std::move(status).WithParam("mqtt.prefix");
  return OkStatus();
}

// The servers that the settings ask for.
class MadeServers final : public MqttServers {
 public:
  // Errors: as MqttServers::Create().
  static Result<std::unique_ptr<MadeServers>> Make(const Settings& settings,
                                                   const Dependencies& dependencies);
  ~MadeServers() override { Stop(); }

  Status Start() override;
  Result<std::function<void()>> LoadTls(const Settings& settings) override;
  std::string addresses() const override;
  LiveReport::ListClients client_list() const override;
  void Announce() override;
  void Revoke(const std::string& credential) override;
  void Resume() override;
  void Stop() override;

 private:
  MadeServers() = default;
  std::string ListenerAddresses() const;

  std::unique_ptr<MqttLogin> login_;
  std::shared_ptr<mqtt::listener::Listener> listener_;  // a scrape may hold it too
  std::unique_ptr<mqtt::bridge::Bridge> bridge_;
  std::shared_ptr<mqtt::chat::Profile> at_listener_, at_broker_;
  std::vector<Collectors> metrics_;
  std::string host_;
  bool tls_ = false;    // whether the listener uses TLS
  std::string broker_;  // its URL; empty: none
  Logger* log_ = nullptr;
  bool started_ = false;
  std::shared_ptr<const void> listening_;  // to revocations; goes before the listener
};

Result<std::unique_ptr<MadeServers>> MadeServers::Make(const Settings& settings,
                                                       const Dependencies& deps) {
  RETURN_IF_ERROR(CheckSettings(settings));
  std::unique_ptr<MadeServers> servers(new MadeServers());
  servers->log_ = deps.log;
  // Listener and bridge refuse addresses other than loopback without TLS, because the project
  // profile requires it.
  const std::vector<MqttProject> projects = Enabled(settings.mqtt_projects());
  const mqtt::chat::ProfileOptions options = ProfileOf(settings, projects);
  const auto profile_at = [&](mqtt::MessagePort& port,
                              const char* server) -> Result<std::shared_ptr<mqtt::chat::Profile>> {
    mqtt::chat::ProfileOptions of_server = options;
    of_server.server = server;
    ASSIGN_OR_RETURN(
        std::shared_ptr<mqtt::chat::Profile> profile,
        mqtt::chat::Profile::Make(
            std::move(of_server),
            {.port = port,
             .sessions = deps.state->sessions(),
             .responses = deps.state->responses(),
             .inference = deps.state->inference(),
             .clock = *deps.clock,
             .unix_ms = &UnixMillis,
             .log = *deps.log,
             .admit = deps.admit,
             .caller_of =
                 [&callers = deps.state->callers()](const std::string& credential,
                                                    const std::string& tenant) {
                   return callers.OverMqtt(credential, tenant);
                 },
             .watch_job =
                 [&jobs = deps.state->jobs()](const std::string& tenant, const std::string& id,
                                              int64_t version, TimePoint until, auto seen) {
                   jobs.Follow(tenant, id, version, until, std::move(seen));
                 }}));
    RETURN_IF_ERROR(profile->Subscribe());
    servers->metrics_.push_back(
        CollectMqtt(*deps.metrics, server,
                    [known = std::weak_ptr(profile)]() -> std::optional<mqtt::chat::Statistics> {
                      const std::shared_ptr<mqtt::chat::Profile> held = known.lock();
                      if (held == nullptr) return std::nullopt;
                      return held->statistics();
                    }));
    return profile;
  };
  const Clock* const clock = deps.clock;
  const mqtt::listener::ListenerOptions listener = ListenerOf(settings);
  if (listener.port >= 0 || listener.websocket_port >= 0) {
    servers->host_ = listener.host;
    servers->tls_ = !listener.tls_cert_file.empty();
    servers->login_ =
        std::make_unique<MqttLogin>(deps.state->authority(), options.prefix,
                                    IsLoopback(listener.host), projects, options.tenant);
    servers->listener_ = std::make_shared<mqtt::listener::Listener>(
        listener, mqtt::listener::Listener::Dependencies{
                      .authenticator = servers->login_.get(), .log = deps.log, .clock = clock});
    ASSIGN_OR_RETURN(servers->at_listener_, profile_at(*servers->listener_, "listener"));
    servers->metrics_.push_back(CollectMqttClients(
        *deps.metrics, [known = std::weak_ptr(servers->listener_)]() -> std::optional<int> {
          const std::shared_ptr<mqtt::listener::Listener> held = known.lock();
          if (held == nullptr) return std::nullopt;
          return held->connections();
        }));
    servers->listening_ = deps.state->authority().accounts().Listen(
        [listener = servers->listener_.get()](const auth::Ended& ended) {
          listener->Revoke(auth::CredentialOf(ended.kind, ended.id));
        });
  }
  if (settings.IsSet("mqtt.url")) {
    ASSIGN_OR_RETURN(mqtt::bridge::BridgeOptions bridge, BridgeOf(settings, options));
    servers->broker_ = bridge.broker;  // a URL with a user or a password in it is refused below
    ASSIGN_OR_RETURN(
        servers->bridge_,
        mqtt::bridge::Bridge::Create(
            std::move(bridge), {.log = deps.log, .clock = clock, .seed = std::random_device{}()}));
    ASSIGN_OR_RETURN(servers->at_broker_, profile_at(*servers->bridge_, "broker"));
    servers->bridge_->OnConnected([profile = servers->at_broker_.get()] { profile->Announce(); });
  }
  const bool open = servers->at_listener_ != nullptr || servers->at_broker_ != nullptr;
  if (open) SetPrompts(projects, options.tenant, deps.state->sessions(), deps.log);
  if (!open && !projects.empty()) {
    return InvalidArgument("invalid_value",
                           "[[mqtt.project]] \"" + projects.front().name +
                               "\" cannot be reached: there is neither mqtt.port, "
                               "mqtt.websocket_port nor mqtt.url (enabled = false leaves it out)")
        .WithParam("mqtt.project");
  }
  return servers;
}

void MadeServers::Revoke(const std::string& credential) {
  if (listener_ != nullptr) listener_->Revoke(credential);
}

Result<std::function<void()>> MadeServers::LoadTls(const Settings& settings) {
  if (listener_ == nullptr) return std::function<void()>([] {});
  return listener_->LoadTls(ListenerOf(settings));
}

Status MadeServers::Start() {
  started_ = true;
  if (listener_ != nullptr) {
    RETURN_IF_ERROR(listener_->Start());
    log_->Info("mqtt.listening", {{"address", ListenerAddresses().substr(5)}});
    at_listener_->Start();
  }
  if (bridge_ != nullptr) {
    bridge_->Start();
    at_broker_->Start();
  }
  return OkStatus();
}

std::string MadeServers::addresses() const {
  std::string text = ListenerAddresses();
  if (!broker_.empty()) text += " and through the broker " + broker_;
  return text;
}

std::string MadeServers::ListenerAddresses() const {
  if (listener_ == nullptr) return "";
  const std::string host = host_.find(':') == std::string::npos ? host_ : "[" + host_ + "]";
  std::string text;
  if (listener_->port() >= 0)
    text +=
        (tls_ ? " and mqtts://" : " and mqtt://") + host + ":" + std::to_string(listener_->port());
  if (listener_->websocket_port() >= 0)
    text += (tls_ ? " and wss://" : " and ws://") + host + ":" +
            std::to_string(listener_->websocket_port()) + "/mqtt";
  return text;
}

LiveReport::ListClients MadeServers::client_list() const {
  if (listener_ == nullptr) return nullptr;
  return [known = std::weak_ptr(listener_)](size_t max, const auto& done) {
    const std::shared_ptr<mqtt::listener::Listener> listener = known.lock();
    if (listener == nullptr) return done({});
    listener->ListClients(max, [done](mqtt::listener::ClientList list) {
      using Protocol = api::LiveClient::Protocol;
      LiveReport::Clients clients;
      clients.left_out = list.left_out;
      for (mqtt::listener::ClientInfo& each : list.clients) {
        clients.clients.push_back(
            {.protocol = each.version == mqtt::Version::k5 ? Protocol::kMqtt5 : Protocol::kMqtt311,
             .client_id = std::move(each.client_id),
             .tenant = std::move(each.tenant),
             .user = std::move(each.user),
             .since = each.since,
             .subscriptions = static_cast<int>(each.subscriptions)});
      }
      done(std::move(clients));
    });
  };
}

void MadeServers::Announce() {
  if (at_listener_ != nullptr) at_listener_->Announce();
  if (at_broker_ != nullptr) at_broker_->Announce();
}

void MadeServers::Resume() {
  if (at_listener_ != nullptr) at_listener_->Resume();
  if (at_broker_ != nullptr) at_broker_->Resume();
}

void MadeServers::Stop() {
  if (!std::exchange(started_, false)) return;
  if (at_listener_ != nullptr) at_listener_->Stop();
  if (at_broker_ != nullptr) at_broker_->Stop();
  if (listener_ != nullptr) listener_->Stop();
  if (bridge_ == nullptr) return;
  if (const Status status = bridge_->Stop(std::chrono::seconds(2)); !status.ok())
    log_->Warn("mqtt.send_failed", {{"why", status.message()}});
}

}  // namespace

Result<std::unique_ptr<MqttServers>> MqttServers::Create(const Settings& settings,
                                                         const Dependencies& dependencies) {
  ASSIGN_OR_RETURN(std::unique_ptr<MqttServers> servers, MadeServers::Make(settings, dependencies));
  return servers;
}

}  // namespace tutti::app
