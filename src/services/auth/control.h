// Control requests about keys and users (protocol/control.h). They come from `tutti keys` and
// `tutti users`, through a server's control socket or on the store itself, and from the routes
// below /admin. Other control requests are in services/usage/control.h, services/jobs/control.h,
// services/batches/control.h and app/control.h.
//
// {"op":"keys.create","name":"ci","tenant":"acme","scopes":{"routes":["embed"],"models":["m"]},
//  "limits":{"requests_per_minute":60},"expires_in_s":86400}
//     -> {"key":{...},"secret":"tutti-..."}
// {"op":"keys.list"}                              -> {"keys":[{...}]}
// {"op":"keys.update","key":"ID or NAME","scopes":{...},"limits":{...}} -> {"keys":[{...}]}: each
//     scope and limit that is left out stays, and null restores the default
// {"op":"keys.revoke","key":"ID or NAME"}         -> {"revoked":["ID"]}
// {"op":"keys.rotate","name":"ci","grace_s":3600} -> {"key":{...},"secret":"tutti-..."}
// {"op":"users.create","name":"ann","password":"...","tenant":...,"scopes":...,"limits":...}
//     -> {}; with "no_password":true instead of a password the user can log in with a
//     certificate only. Same answer: users.password (name, password), users.enable, users.disable,
//     users.delete (name)
// {"op":"users.list"}                             -> {"users":[{...}]}
//
// Of `scopes` in an answer, "routes" is null for all but admin, "models" null for all.
//
// All but `op` and what names the object may be left out. A member that the operation does not
// know is refused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "services/auth/authenticator.h"

namespace tutti::auth {

inline constexpr size_t kMaxControlRequestBytes = 64 << 10;
inline constexpr int64_t kDefaultGraceS = int64_t{7} * 86400;
inline constexpr int64_t kMaxSpanS = int64_t{3650} * 86400;  // of lives and graces

// Waits for the disk, and for the hash of a password: not for an io thread. Any other. Errors:
// those of Accounts and of protocol::AnswerControl.
Result<std::string> HandleControl(Authenticator& authority, std::string_view request,
                                  int64_t now_s);

}  // namespace tutti::auth
