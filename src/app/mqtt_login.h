// MqttLogin: who may connect to our own MQTT listener: the same users and keys as everywhere.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "app/mqtt_projects.h"
#include "doors/mqtt/listener/authenticator.h"
#include "services/auth/authority.h"

namespace tutti::app {

// A user's name and password; or the name of a key as the user, and the key as the password; or,
// without a password, the certificate of the connection, whose user it then is: a user name beside
// it must be that. What is shown with a password is judged by that alone, as on every door. Where
// the server is open any name is taken, and none is "local". Whoever belongs to the projects'
// tenant takes part in them: speaks, and reads what is answered to anybody there, as the project
// profile knows no users; its verbs (template, clear, delete) are for administrators, and for all
// where the server is open. Any thread.
class MqttLogin final : public mqtt::listener::Authenticator {
 public:
  // `authority` outlives it. `prefix`: of the native profile; `loopback`: of the listener's
  // address. `projects`, those that are enabled, are `tenant`'s.
  MqttLogin(auth::Authority& authority, std::string prefix, bool loopback,
            std::vector<MqttProject> projects, std::string tenant)
      : authority_(authority),
        jails_{std::move(prefix), std::move(projects), std::move(tenant)},
        loopback_(loopback) {}

  void Check(mqtt::listener::Credentials credentials, Done done) override;
  bool MayStay(const mqtt::listener::Principal& principal) override;

 private:
  // Topics know names alone: a name that another tenant's user has (or the configured key) is not
  // a key's.
  bool OwnsName(const auth::Principal& who) const;

  // Of what shows a certificate, and no password.
  Result<mqtt::listener::Principal> OfCertificate(const mqtt::listener::Credentials& shown) const;

  struct Jails {  // by which topics clients are kept apart
    std::string prefix;
    std::vector<MqttProject> projects;
    std::string tenant;
    Result<mqtt::listener::Principal> Of(const std::string& user, const auth::Principal& who) const;
  };

  auth::Authority& authority_;
  const Jails jails_;
  const bool loopback_;
};

}  // namespace tutti::app
