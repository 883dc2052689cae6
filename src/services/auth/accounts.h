// Accounts: the API keys and users in the store, and an immutable in-memory snapshot of them that
// all threads read.
//
// A change is a transaction of the store. After the commit and before the call returns, the new
// snapshot is visible to all threads, and listeners have been called for revoked keys and users. A
// revoked key is therefore refused as soon as its revocation returns. If the disk is full, a
// serving process still revokes in memory and stores the revocation later; a restart before that
// undoes it.
//
// Any thread; calls that change or list accounts block for the disk, so neither I/O threads nor the
// store's thread may make them. The store must outlive the Accounts. Times are seconds since 1970.
// Errors of all calls: the store's, and those listed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "services/auth/account_tables.h"
#include "services/auth/key_text.h"
#include "services/auth/principal.h"
#include "store/database.h"
#include "store/store.h"

namespace tutti::auth {

// --- the snapshot ---

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

// Snapshot: in-memory copy of all keys and users as of the last commit, which every thread can read
// without the store. Immutable except KeyEntry::used_s; each change makes a new snapshot.
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

// --- changes ---

// Properties of a new key.
struct KeySpec {
  std::string name;
  Grant grant;
  std::optional<int64_t> expires_s;
};

// New rights of a key; what is absent stays.
struct KeyChange {
  using Limit = std::optional<int64_t> Limits::*;

  std::optional<RouteClasses> routes = {};
  std::optional<std::vector<std::string>> models = {};
  std::vector<std::pair<Limit, std::optional<int64_t>>> limits = {};  // nullopt: the default

  bool empty() const { return !routes.has_value() && !models.has_value() && limits.empty(); }
};

struct IssuedKey {
  KeyRecord record;
  std::string text;  // the secret key; it cannot be recovered later
};

// A revoked key or a disabled user, whose streams and connections must end.
struct Ended {
  PrincipalKind kind = PrincipalKind::kKey;
  std::string id;
};

class Accounts {
 public:
  // Needs kAuthTables among the store's migrations. `serving`: this process authenticates callers,
  // so that a revocation in memory has an effect (false for command-line tools).
  static Result<std::unique_ptr<Accounts>> Open(store::Store* store, bool serving = false);
  bool serving() const { return serving_; }

  SnapshotRef snapshot() const { return core_->snapshot(); }

  // Registers a callback for each revoked key and each user that is deleted, disabled or given
  // another password. It runs on the thread of the change and must not change accounts. Releasing
  // the returned token unregisters it; a call that is in progress may still reach it once.
  using Listener = std::function<void(const Ended&)>;
  [[nodiscard]] std::shared_ptr<const void> Listen(Listener listener);

  // Errors: invalid_value (name, tenant, expires), name_taken (an active key has it).
  Result<IssuedKey> CreateKey(const KeySpec& spec, int64_t now_s);
  // Creates a second key with the name of an active key, which then expires in `grace_s` seconds.
  // Errors: not_found; two_keys_active.
  Result<IssuedKey> RotateKey(std::string_view name, int64_t grace_s, int64_t now_s);
  // Changes the active key of that id, or else the active keys of that name; returns them. The next
  // request has the new rights; running requests and open connections keep theirs. Errors:
  // not_found.
  Result<std::vector<KeyRecord>> ChangeKeys(std::string_view id_or_name, const KeyChange& change,
                                            int64_t now_s);
  // Revokes the key of that id, or else all keys of that name. Returns the ids of those that were
  // active. Works on a full disk in a serving process. Errors: not_found.
  Result<std::vector<std::string>> RevokeKeys(std::string_view id_or_name, int64_t now_s);
  Result<std::vector<KeyRecord>> Keys();

  // `user.password_hash` is a hash of HashPassword(). Errors: invalid_value, name_taken.
  Status CreateUser(const UserRecord& user);
  // Errors of these: not_found.
  Status RemoveUser(std::string_view name);
  // Disabling a user works on a full disk in a serving process.
  Status EnableUser(std::string_view name, bool enabled);
  Status ChangePassword(std::string_view name, std::string_view hash);
  Result<std::vector<UserRecord>> Users();

  // Whether there are revocations that are not stored yet.
  bool unwritten() const { return !core_->unwritten().empty(); }
  // Tries to store them; does not block. Called periodically.
  void WriteUnwritten();

  // Do not block; the updates are lost if the store is overloaded or has failed.
  void NoteUse(const KeyEntry& key, int64_t now_s) const;
  void Rehash(const std::string& name, const std::string& before, const std::string& after);

 private:
  // State shared with work on the store's thread, which may outlive the Accounts.
  class Core {
   public:
    SnapshotRef snapshot() const {
      const MutexLock guard(mutex_);
      return snapshot_;
    }
    ShutOut unwritten() const {
      const MutexLock guard(mutex_);
      return unwritten_;
    }
    // `settled`: revocations that the snapshot contains; they are no longer unwritten.
    void Install(SnapshotRef snapshot, const ShutOut& settled);
    void Keep(const ShutOut& unwritten);

    std::atomic<bool> writing{false};  // a write of unwritten_ is in progress

   private:
    mutable Mutex mutex_;
    SnapshotRef snapshot_ GUARDED_BY(mutex_);
    ShutOut unwritten_ GUARDED_BY(mutex_);
  };
  using Settled = std::shared_ptr<const ShutOut>;  // read after the commit; null: none

  Accounts(store::Store* store, SnapshotRef first, bool serving);
  // Runs `work` and installs a new snapshot on the store's thread, so in the order of commits.
  void ChangeLater(store::Store::Work work, store::Store::Done done, Settled settled = nullptr);
  Status Change(const store::Store::Work& work, Settled settled = nullptr);
  // Whether, after such an error, the revocation may hold in memory alone.
  bool Withstands(const Status& error) const;
  void NotifyListeners(PrincipalKind kind, std::string_view id);

  store::Store* const store_;
  const bool serving_;
  const std::shared_ptr<Core> core_;
  Mutex listeners_mutex_;
  std::vector<std::weak_ptr<const Listener>> listeners_ GUARDED_BY(listeners_mutex_);
};

}  // namespace tutti::auth
