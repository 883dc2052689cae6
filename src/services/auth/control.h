// Control requests of `tutti keys` and `tutti users`: one JSON object for the request and one for
// the answer. They come through a server's control socket, or the command opens the store itself.
// Other control requests are in services/usage/control.h and app/control.h.
//
// {"op":"keys.create","name":"ci","tenant":"acme","scopes":{"routes":["embed"],"models":[]},
//  "limits":{"requests_per_minute":60},"expires_in_s":86400}
//     -> {"ok":true,"key":{...},"secret":"tutti-..."}
// {"op":"keys.list"}                              -> {"ok":true,"keys":[{...}]}
// {"op":"keys.revoke","key":"ID or NAME"}         -> {"ok":true,"revoked":["ID"]}
// {"op":"keys.rotate","name":"ci","grace_s":3600} -> {"ok":true,"key":{...},"secret":"tutti-..."}
// {"op":"users.create","name":"ann","password":"...","tenant":...,"scopes":...,"limits":...}
//     -> {"ok":true}; with "no_password":true instead of a password the user can log in with a
//     certificate only. Same answer: users.password (name, password), users.enable, users.disable,
//     users.delete (name)
// {"op":"users.list"}                             -> {"ok":true,"users":[{...}]}
// or {"ok":false,"code":"name_taken","message":"..."}.
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

// Waits for the disk, and for the hash of a password: not for an io thread. Any other.
std::string HandleControl(Authenticator& authority, std::string_view request, int64_t now_s);

}  // namespace tutti::auth
