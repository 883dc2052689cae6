// Snapshot: in-memory copy of all keys and users as of the last commit, which every thread can read
// without the store. Immutable except KeyEntry::used_s; each change makes a new snapshot.
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
  mutable std::atomic<int64_t> used_s{0};  // last use that was passed to the store
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

// Revocations in memory that a full or failed disk has not stored yet.
struct ShutOut {
  std::map<std::string, int64_t, std::less<>> keys;  // by id: since when, in seconds since 1970
  std::set<std::string, std::less<>> users;          // by name

  bool empty() const { return keys.empty() && users.empty(); }
};

// Copy of a snapshot with these keys revoked and users disabled.
SnapshotRef Without(const Snapshot& snapshot, const ShutOut& who);

// Runs on the store's thread. Errors: the database's, record_corrupt.
Result<SnapshotRef> LoadSnapshot(store::Database& database);

// Finds the key with text `text`. Takes one hash and one comparison of fixed length, whether or not
// a key of that id exists. Errors: invalid_api_key; key_revoked (only if the secret is correct).
Result<const KeyEntry*> CheckKey(const Snapshot& snapshot, std::string_view text, int64_t now_s);

}  // namespace tutti::auth
