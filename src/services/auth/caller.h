// A principal as the waist knows it: what admission and the services need of who asks. Pure but for
// Authority's functions beside it (authority.h); any thread.
#pragma once

#include <string>
#include <string_view>

#include "api/caller.h"
#include "services/auth/principal.h"

namespace tutti::auth {

// "open", "key:ID", "user:NAME", "token:ID": stands in requests, the ledger and the store.
inline constexpr std::string_view kOpenCredential = "open", kKeyCredential = "key:",
                                  kUserCredential = "user:", kTokenCredential = "token:";
std::string CredentialOf(PrincipalKind kind, std::string_view id);

// The credential of `who` in a log; `claim` where nobody was recognised. "-": nobody was asked.
std::string LogNameOf(const PrincipalRef& who, std::string_view claim = "-");
// Their tenant, or "-".
std::string LogTenantOf(const PrincipalRef& who);

api::CallerRef CallerOf(const Principal& who);

}  // namespace tutti::auth
