// Database rows of users; of passwords only the hash (password_hash.h).
//
// All functions run on the store's thread, inside a Store::Work; their errors are the database's
// and those listed. Times are seconds since 1970.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "services/auth/grant.h"
#include "store/database.h"

namespace tutti::auth {

// Maximum number of users; all of them are also in memory.
inline constexpr int64_t kMaxUsers = 16384;

struct UserRecord {
  std::string name;
  std::string password_hash;
  Grant grant;
  bool enabled = true;
  int64_t created_s = 0;
};

// Sorted by name.
Result<std::vector<UserRecord>> LoadUsers(store::Database& database);

// Errors: name_taken, too_many_users.
Status InsertUser(store::Database& database, const UserRecord& user);
// Errors of these: not_found.
Status DeleteUser(store::Database& database, std::string_view name);
Status SetUserEnabled(store::Database& database, std::string_view name, bool enabled);
Status SetUserPassword(store::Database& database, std::string_view name, std::string_view hash);
// Replaces the hash `before` with `after`, of the same password; does nothing if the password was
// changed meanwhile.
Status RehashUser(store::Database& database, std::string_view name, std::string_view before,
                  std::string_view after);

}  // namespace tutti::auth
