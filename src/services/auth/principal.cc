#include "services/auth/principal.h"

#include <array>

#include "base/quote.h"

namespace tutti::auth {
namespace {

bool IsPerson(PrincipalKind kind) {
  return kind == PrincipalKind::kUser || kind == PrincipalKind::kToken;
}

// By PrincipalKind.
constexpr std::array<std::string_view, 4> kCredentials = {kOpenCredential, kKeyCredential,
                                                          kUserCredential, kTokenCredential};

}  // namespace

const PrincipalRef& OpenPrincipal() {
  static const PrincipalRef open = std::make_shared<const Principal>();
  return open;
}

Status Authorize(const Principal& who, RouteClass route, std::string_view model) {
  if (!who.grant.scopes.routes.Has(route))
    return {StatusCode::kPermissionDenied, "insufficient_scope",
            "this needs the scope " + std::string(RouteClassName(route)) +
                ", which the caller was not given (`tutti keys create --routes`)"};
  if (!model.empty() && !HasModel(who.grant.scopes, model))
    return {StatusCode::kPermissionDenied, "insufficient_scope",
            "the caller was not given the model " + Quote(model)};
  return OkStatus();
}

Status NotAuthenticated() {
  return {StatusCode::kUnauthenticated, "invalid_api_key",
          "a valid key is needed: Authorization: Bearer <key>"};
}

std::string CredentialOf(PrincipalKind kind, std::string_view id) {
  std::string text(kCredentials[static_cast<size_t>(kind)]);
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
