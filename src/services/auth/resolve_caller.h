// Authenticates a request by its "authorization" header (HTTP and gRPC) or by the client
// certificate of the connection, and checks that the caller may use the route. Any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "services/auth/authenticator.h"
#include "services/auth/principal.h"
#include "services/auth/scopes.h"

namespace tutti::auth {

// The text after "Bearer " (case-insensitive) in the only value of the field. Empty if the field is
// missing, has another scheme, or has several values.
std::string_view BearerOf(std::span<const std::string_view> authorization);

struct PresentedCredentials {
  std::span<const std::string_view> authorization = {};  // all values of the field
  const CertifiedName* certificate = nullptr;            // null where the connection has none
};

// Claimed identity of a refused request, for the log: "key:ID" for a text in the form of a key,
// "certificate:NAME", else "-". Contains no secret.
std::string ClaimOf(const PresentedCredentials& shown);

// Authenticates a request. If the request has an authorization header, only the header counts, even
// if it is wrong; otherwise the client certificate does. On an open server every request gets
// OpenPrincipal(), because many clients always send some key. `now_s`: seconds since 1970. Errors:
// as Authenticator::FromBearer and FromCertificate.
Result<PrincipalRef> ResolveCaller(const Authenticator& authority, bool loopback,
                                   const PresentedCredentials& shown, int64_t now_s);

// OK if `who` has one of the scopes of `rule`. On an open server every local client counts as
// operator; routes that must be closed even to them need a further check. Errors:
// insufficient_scope.
Status MayUse(const Principal& who, RouteClasses rule);

}  // namespace tutti::auth
