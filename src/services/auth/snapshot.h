// Snapshot: all keys and users as the last commit left them, in memory, for every thread to read
// without the store. Immutable, but for the note of a key's last use; a change makes another one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/status.h"
#include "services/auth/key_text.h"
#include "services/auth/principal.h"
#include "store/database.h"

namespace tutti::auth {

struct KeyEntry {
  Digest digest{};
  PrincipalRef principal;
  bool revoked = false;
  mutable std::atomic<int64_t> used_s{0};  // as far as it was handed to the store
};

struct UserEntry {
  std::string password_hash;
  PrincipalRef principal;
  bool enabled = true;
};

struct Snapshot {
  std::map<std::string, KeyEntry, std::less<>> keys;    // by id, with those that ended
  std::map<std::string, UserEntry, std::less<>> users;  // by name

  const KeyEntry* FindKey(std::string_view id) const;
  const UserEntry* FindUser(std::string_view name) const;
  bool empty() const { return keys.empty() && users.empty(); }
};

using SnapshotRef = std::shared_ptr<const Snapshot>;

// Who is shut out although a disk that is full, or has failed, did not take it.
struct ShutOut {
  std::map<std::string, int64_t, std::less<>> keys;  // by id: since when, in seconds since 1970
  std::set<std::string, std::less<>> users;          // by name

  bool empty() const { return keys.empty() && users.empty(); }
};

// The same, but for them: keys that are revoked, users that are disabled.
SnapshotRef Without(const Snapshot& snapshot, const ShutOut& who);

// Runs on the store's thread. Errors: the database's, record_corrupt.
Result<SnapshotRef> LoadSnapshot(store::Database& database);

// Whose key `text` is. One hash and one comparison of equal length, whether or not there is a key
// of that id. Errors: invalid_api_key; key_revoked, told only to who has its secret.
Result<const KeyEntry*> CheckKey(const Snapshot& snapshot, std::string_view text, int64_t now_s);

}  // namespace tutti::auth
