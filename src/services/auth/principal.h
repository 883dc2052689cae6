// Principal: an authenticated caller and its grant; the same for all servers. Its conversion to
// api::Caller, the form that admission and the services use.
//
// The Authenticator makes one per credential; immutable; shared by all requests of the credential.
// The functions are pure; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/caller.h"
#include "base/status.h"
#include "services/auth/grant.h"

namespace tutti::auth {

enum class PrincipalKind : uint8_t {
  kOpen,   // anonymous: a local client of a server without keys and users
  kKey,    // an API key
  kUser,   // a name and a password, or a certificate of that name
  kToken,  // a signed token of another issuer (JWT)
};

struct Principal {
  PrincipalKind kind = PrincipalKind::kOpen;
  std::string id;    // of its kind: the key's id, the user's name, issuer and subject of a token
  std::string name;  // for logs and metrics: the name of the key or user, the subject
  Grant grant;
  std::optional<int64_t> expires_s;  // seconds since 1970; not valid from then on
};

using PrincipalRef = std::shared_ptr<const Principal>;

// The principal of all anonymous callers; has all scopes except admin.
const PrincipalRef& OpenPrincipal();

// OK if `who` may use routes of that class, and the model if one is given. Errors:
// insufficient_scope (403). Authentication errors (invalid_api_key, 401) come earlier.
Status Authorize(const Principal& who, RouteClass route, std::string_view model = {});

// Whether callers without a credential are served: only local ones, and only while there is no key,
// user, token issuer or certificate authority.
constexpr bool IsOpenTo(bool loopback, bool anyone_is_known) {
  return loopback && !anyone_is_known;
}

// The one error for all callers without a valid credential.
Status NotAuthenticated();

// Credential strings "open", "key:ID", "user:NAME", "token:ID", as used in requests, the ledger and
// the store.
inline constexpr std::string_view kOpenCredential = "open", kKeyCredential = "key:",
                                  kUserCredential = "user:", kTokenCredential = "token:";
std::string CredentialOf(PrincipalKind kind, std::string_view id);

// Credential of `who` for the log; `claim` if authentication failed; "-" without authentication.
std::string LogNameOf(const PrincipalRef& who, std::string_view claim = "-");
// Their tenant, or "-".
std::string LogTenantOf(const PrincipalRef& who);

api::CallerRef CallerOf(const Principal& who);

}  // namespace tutti::auth
