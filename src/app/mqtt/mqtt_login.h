// MqttLogin: authenticator of the built-in MQTT listener, with the users and keys of all servers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "app/config/mqtt_projects.h"
#include "server/mqtt/listener/authenticator.h"
#include "services/auth/authenticator.h"

namespace tutti::app {

// Authenticates the clients of the built-in MQTT listener. Any thread. Accepted credentials:
//   - name and password of a user,
//   - name of a key as user name, and the key as password,
//   - a client certificate without a password; a user name, if sent, must be that of the
//     certificate.
// A certificate is ignored when a password is sent, as on every server. An open server accepts any
// user name; a client without one is called "local".
//
// Members of the projects' tenant may publish to the projects and read all answers there, because
// the project profile has no users. The verbs template, clear and delete are reserved to
// administrators unless the server is open.
class MqttLogin final : public mqtt::listener::Authenticator {
 public:
  // `authority` outlives it. `prefix`: of the native profile; `loopback`: of the listener's
  // address. `projects`, those that are enabled, are `tenant`'s.
  MqttLogin(auth::Authenticator& authority, std::string prefix, bool loopback,
            std::vector<MqttProject> projects, std::string tenant)
      : authority_(authority),
        jails_{std::move(prefix), std::move(projects), std::move(tenant)},
        loopback_(loopback) {}

  void Check(mqtt::listener::Credentials credentials, Done done) override;
  bool MayStay(const mqtt::listener::Principal& principal) override;

 private:
  // Topics contain names but no tenants, so a key must not have the name of another tenant's user
  // or of the configured key.
  bool OwnsName(const auth::Principal& who) const;

  // Principal of a client that sent a certificate and no password.
  Result<mqtt::listener::Principal> OfCertificate(const mqtt::listener::Credentials& shown) const;

  struct Jails {  // computes the topics that a client may use
    std::string prefix;
    std::vector<MqttProject> projects;
    std::string tenant;
    Result<mqtt::listener::Principal> Of(const std::string& user, const auth::Principal& who) const;
  };

  auth::Authenticator& authority_;
  const Jails jails_;
  const bool loopback_;
};

}  // namespace tutti::app
