#include "services/auth/caller.h"

#include <memory>

namespace tutti::auth {
namespace {

bool IsPerson(PrincipalKind kind) {
  return kind == PrincipalKind::kUser || kind == PrincipalKind::kToken;
}

std::string_view KindName(PrincipalKind kind) {
  switch (kind) {
    case PrincipalKind::kOpen:
      return kOpenCredential;
    case PrincipalKind::kKey:
      return kKeyCredential;
    case PrincipalKind::kUser:
      return kUserCredential;
    case PrincipalKind::kToken:
      return kTokenCredential;
  }
  return "";
}

}  // namespace

std::string CredentialOf(PrincipalKind kind, std::string_view id) {
  std::string text(KindName(kind));
  return text += id;
}

std::string LogNameOf(const PrincipalRef& who, std::string_view claim) {
  if (who != nullptr) return CredentialOf(who->kind, who->id);
  return claim == "-" ? "-" : "refused:" + std::string(claim);
}

std::string LogTenantOf(const PrincipalRef& who) {
  return who == nullptr ? "-" : who->grant.tenant;
}

api::CallerRef CallerOf(const Principal& who) {
  return std::make_shared<const api::Caller>(
      api::Caller{.tenant = who.grant.tenant,
                  .credential = CredentialOf(who.kind, who.id),
                  .user = IsPerson(who.kind) ? who.name : std::string(),
                  .models = who.grant.scopes.models,
                  .limits = who.grant.limits});
}

}  // namespace tutti::auth
