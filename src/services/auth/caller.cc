#include "services/auth/caller.h"

#include <memory>

namespace tutti::auth {
namespace {

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

api::CallerRef CallerOf(const Principal& who) {
  return std::make_shared<const api::Caller>(
      api::Caller{.tenant = who.grant.tenant,
                  .credential = CredentialOf(who.kind, who.id),
                  .models = who.grant.scopes.models,
                  .limits = who.grant.limits});
}

}  // namespace tutti::auth
