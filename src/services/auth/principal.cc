#include "services/auth/principal.h"

#include "base/quote.h"

namespace tutti::auth {

const PrincipalRef& OpenPrincipal() {
  static const PrincipalRef open = std::make_shared<const Principal>();
  return open;
}

Status Authorize(const Principal& who, RouteClass route, std::string_view model) {
  if (!who.grant.scopes.routes.Has(route))
    return {StatusCode::kPermissionDenied, "insufficient_scope",
            "this needs the scope " + std::string(RouteClassName(route)) +
                ", which the caller was not given"};
  if (!model.empty() && !HasModel(who.grant.scopes, model))
    return {StatusCode::kPermissionDenied, "insufficient_scope",
            "the caller was not given the model " + Quote(model)};
  return OkStatus();
}

Status NotAuthenticated() {
  return {StatusCode::kUnauthenticated, "invalid_api_key",
          "a valid key is needed: Authorization: Bearer <key>"};
}

}  // namespace tutti::auth
