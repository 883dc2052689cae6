// Conversion of an authenticated principal to api::Caller, the form that admission and the services
// use. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

#include "api/caller.h"
#include "services/auth/principal.h"

namespace tutti::auth {

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
