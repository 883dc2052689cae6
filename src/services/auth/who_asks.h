// Who asks, by what stands in the field "authorization" of HTTP and gRPC or by the certificate of
// the connection, and whether they may. Any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "services/auth/authority.h"
#include "services/auth/principal.h"
#include "services/auth/scopes.h"

namespace tutti::auth {

// What stands behind "Bearer ", the word in any case, in the one value of that field; empty where
// there is none, another scheme or a second value.
std::string_view BearerOf(std::span<const std::string_view> authorization);

struct Shown {
  std::span<const std::string_view> authorization = {};  // all values of the field
  const CertifiedName* certificate = nullptr;            // null where the connection has none
};

// As whom it presents itself, for the log where it is refused: "key:ID" of a text of a key's form,
// "certificate:NAME", "-" for all else. Holds no secret.
std::string ClaimOf(const Shown& shown);

// A request that shows something itself is judged by that alone, also where it is wrong; the
// certificate of its connection speaks for the others. Nobody in particular where the server is
// open: clients that must send something send anything to a server that asks for nothing. `now_s`:
// seconds since 1970. Errors: as Authority::FromBearer and FromCertificate.
Result<PrincipalRef> WhoAsks(const Authority& authority, bool loopback, const Shown& shown,
                             int64_t now_s);

// Whether `who` has one of the scopes of `rule`. On an open server everybody of this machine is its
// operator: what must not be shown even to them needs more than a rule. Errors:
// insufficient_scope.
Status MayUse(const Principal& who, RouteClasses rule);

}  // namespace tutti::auth
