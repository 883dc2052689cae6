// Principal: who a caller is, the same on every door, and what they may do.
//
// Made once by the Authority for each credential, immutable, shared by all who speak for it.
// Functions are pure; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "services/auth/grant.h"

namespace tutti::auth {

enum class PrincipalKind : uint8_t {
  kOpen,   // nobody in particular, on a server of this machine without keys and users
  kKey,    // an API key
  kUser,   // a name and a password, or a certificate of that name
  kToken,  // a signed token of somebody else (JWT)
};

struct Principal {
  PrincipalKind kind = PrincipalKind::kOpen;
  std::string id;    // of its kind: the key's id, the user's name, issuer and subject of a token
  std::string name;  // for logs and metrics: the name of the key or user, the subject
  Grant grant;
  std::optional<int64_t> expires_s;  // seconds since 1970, from which on it is nobody any more
};

using PrincipalRef = std::shared_ptr<const Principal>;

// One for all; all but admin.
const PrincipalRef& OpenPrincipal();

// Whether `who` may use routes of that class, and the model where one is named. Errors:
// insufficient_scope (403). That there is a `who` at all was decided before (invalid_api_key, 401).
Status Authorize(const Principal& who, RouteClass route, std::string_view model = {});

// Whether callers without a credential are served: on this machine alone, and only as long as
// nobody is known. From the first key, user, issuer or authority of certificates on, everything is
// closed to them.
constexpr bool IsOpenTo(bool loopback, bool anyone_is_known) {
  return loopback && !anyone_is_known;
}

// What a caller without a valid credential is told, whatever was wrong with it.
Status NotAuthenticated();

}  // namespace tutti::auth
