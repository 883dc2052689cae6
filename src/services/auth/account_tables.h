// Database rows of API keys and users. Rows hold a digest of a key, never the secret (key_text.h),
// and of passwords only the hash (password.h).
//
// All functions run on the store's thread, inside a Store::Work; their errors are the database's
// and those listed. Times are seconds since 1970.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "services/auth/grant.h"
#include "services/auth/key_text.h"
#include "store/database.h"

namespace tutti::auth {

extern const store::Migration kAuthTables;

// --- keys ---

// Maximum number of rows, including revoked and expired keys; all of them are also in memory.
inline constexpr int64_t kMaxKeys = 16384;
// Time for which an ended key is remembered, so that its holder gets a specific error.
inline constexpr int64_t kKeptAfterEndS = int64_t{90} * 86400;

struct KeyRecord {
  std::string id;
  std::string name;  // of several keys at most two are active (rotation)
  Digest digest{};   // of the key's text
  Grant grant;
  int64_t created_s = 0;
  std::optional<int64_t> expires_s;
  std::optional<int64_t> revoked_s;
  std::optional<int64_t> used_s;  // coarse: at most an hour behind
};

// Neither revoked nor expired.
bool IsActive(const KeyRecord& key, int64_t now_s);

// All keys in order of creation.
Result<std::vector<KeyRecord>> LoadKeys(store::Database& database);
// Loads the keys with that name.
Result<std::vector<KeyRecord>> LoadKeysNamed(store::Database& database, std::string_view name);

// Also deletes keys that ended long ago. Errors: store_conflict (the id is taken), too_many_keys.
Status InsertKey(store::Database& database, const KeyRecord& key, int64_t now_s);
// Sets the expiry, but never later than the present one.
Status ExpireKey(store::Database& database, std::string_view id, int64_t expires_s);
Status RevokeKey(store::Database& database, std::string_view id, int64_t now_s);
// Replaces the scopes and limits; the tenant of a key never changes.
Status SetKeyGrant(store::Database& database, std::string_view id, const Grant& grant);
Status NoteKeyUse(store::Database& database, std::string_view id, int64_t now_s);

// --- users ---

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
