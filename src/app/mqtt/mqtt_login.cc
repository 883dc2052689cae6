#include "app/mqtt/mqtt_login.h"

#include <ctime>
#include <utility>

#include "server/mqtt/chat/topics.h"
#include "services/auth/key_text.h"
#include "services/auth/principal.h"

namespace tutti::app {
namespace {

using mqtt::chat::Party, mqtt::chat::TopicRule;
using mqtt::listener::Principal;

void AddProject(const std::string& name, bool administers, Principal* principal) {
  const auto may = [administers](Party party) {
    return party == Party::kMember || (party == Party::kAdmin && administers);
  };
  for (const TopicRule& rule : mqtt::chat::TopicRules()) {
    if (!rule.of_project()) continue;
    const std::string filter = mqtt::chat::FilterOf(rule, name);
    if (may(rule.publishes)) principal->publish.push_back(filter);
    if (may(rule.reads)) principal->subscribe.push_back(filter);
    if (may(rule.answered)) principal->respond.push_back(filter);
  }
}

}  // namespace

// Generating is all that MQTT is for.
Result<Principal> MqttLogin::Jails::Of(const std::string& user, const auth::Principal& who) const {
  RETURN_IF_ERROR(auth::Authorize(who, auth::RouteClass::kGenerate));
  ASSIGN_OR_RETURN(Principal principal,
                   mqtt::listener::UserPrincipal(prefix, user, who.grant.tenant));
  principal.credential = auth::CredentialOf(who.kind, who.id);
  if (who.grant.tenant != tenant) return principal;
  const bool administers =
      who.kind == auth::PrincipalKind::kOpen || auth::Authorize(who, auth::RouteClass::kAdmin).ok();
  for (const MqttProject& project : projects) {
    if (auth::Authorize(who, auth::RouteClass::kGenerate, project.model).ok())
      AddProject(project.name, administers, &principal);
  }
  return principal;
}

bool MqttLogin::OwnsName(const auth::Principal& who) const {
  if (who.kind != auth::PrincipalKind::kKey) return true;
  const auth::SnapshotRef known = authority_.accounts().snapshot();
  const auth::UserEntry* const user = known->FindUser(who.name);
  if (user != nullptr && user->principal->grant.tenant != who.grant.tenant) return false;
  // The ids of all other keys are random.
  const Result<auth::PrincipalRef> configured = authority_.FromCredential(
      auth::CredentialOf(auth::PrincipalKind::kKey, who.name), std::time(nullptr));
  return !configured.ok() || (*configured)->grant.tenant == who.grant.tenant;
}

bool MqttLogin::MayStay(const Principal& principal) {
  if (principal.expires_s.has_value() && *principal.expires_s <= std::time(nullptr)) return false;
  const Result<auth::PrincipalRef> who =
      authority_.FromCredential(principal.credential, std::time(nullptr));
  return who.ok() && OwnsName(**who);
}

Result<Principal> MqttLogin::OfCertificate(const mqtt::listener::Credentials& shown) const {
  const int64_t expires_s = shown.certificate->expires_s;
  ASSIGN_OR_RETURN(
      const auth::PrincipalRef who,
      authority_.FromCertificate({.name = shown.certificate->name, .expires_s = expires_s},
                                 std::time(nullptr)));
  if (shown.user_name.value_or(who->name) != who->name) return auth::NotAuthenticated();
  ASSIGN_OR_RETURN(Principal principal, jails_.Of(who->name, *who));
  principal.expires_s = expires_s;
  return principal;
}

void MqttLogin::Check(mqtt::listener::Credentials credentials, Done done) {
  if (authority_.IsOpen(loopback_)) {
    return done(jails_.Of(credentials.user_name.value_or("local"), *auth::OpenPrincipal()));
  }
  if (credentials.certificate.has_value() && !credentials.password.has_value())
    return done(OfCertificate(credentials));
  if (!credentials.user_name.has_value() || !credentials.password.has_value())
    return done(auth::NotAuthenticated());
  if (credentials.password->starts_with(auth::kKeyPrefix)) {
    const Result<auth::PrincipalRef> who =
        authority_.FromBearer(*credentials.password, std::time(nullptr));
    if (!who.ok()) return done(who.status());
    if ((*who)->name != *credentials.user_name || !OwnsName(**who))
      return done(auth::NotAuthenticated());
    return done(jails_.Of((*who)->name, **who));
  }
  const std::string user = *credentials.user_name;
  authority_.FromPassword(
      user, *std::move(credentials.password),
      [jails = jails_, user, done = std::move(done)](Result<auth::PrincipalRef> who) {
        if (!who.ok()) return done(who.status());
        done(jails.Of(user, **who));
      });
}

}  // namespace tutti::app
