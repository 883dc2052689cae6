// Accounts: the keys and users of a store, and the picture of them that all threads read.
//
// A change is a transaction of the store; after its commit, and before the call returns, the new
// picture is there for everybody and those whom it shuts out have been told to the listeners. So a
// revoked key is refused from the moment on in which its revocation is acknowledged. Where the disk
// takes nothing, a serving process shuts out all the same, in its memory alone, and writes it down
// later: until then a restart undoes it.
//
// Any thread. Calls that change or list wait for the disk: not for an io thread, nor for the
// store's own. The store must outlive this. Times are seconds since 1970. Errors of all: the
// store's, and those that they name.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "services/auth/key_table.h"
#include "services/auth/snapshot.h"
#include "services/auth/user_table.h"
#include "store/store.h"

namespace tutti::auth {

// What a new key is to be.
struct KeySpec {
  std::string name;
  Grant grant;
  std::optional<int64_t> expires_s;
};

struct IssuedKey {
  KeyRecord record;
  std::string text;  // nobody can show it again
};

// Who must be shut out: their streams and connections end.
struct Ended {
  PrincipalKind kind = PrincipalKind::kKey;
  std::string id;
};

class Accounts {
 public:
  // Needs kAuthTables among the store's migrations. `serving`: somebody is let in by it for as long
  // as it lives, so that shutting out in memory alone means something.
  static Result<std::unique_ptr<Accounts>> Open(store::Store* store, bool serving = false);
  bool serving() const { return serving_; }

  SnapshotRef snapshot() const { return core_->snapshot(); }

  // Called for each key revoked, and each user deleted, disabled or given another password, on the
  // thread of the change; must not change anything here. Until the token is let go, of which a call
  // that is under way may be told once more.
  using Listener = std::function<void(const Ended&)>;
  [[nodiscard]] std::shared_ptr<const void> Listen(Listener listener);

  // Errors: invalid_value (name, tenant, expires), name_taken (an active key has it).
  Result<IssuedKey> CreateKey(const KeySpec& spec, int64_t now_s);
  // A second key beside the active one of that name, which ends `grace_s` from now. Errors:
  // not_found; two_keys_active.
  Result<IssuedKey> RotateKey(std::string_view name, int64_t grace_s, int64_t now_s);
  // The key of that id, or else all keys of that name; the ids of those that were active. Errors:
  // not_found. A serving process needs no disk for it.
  Result<std::vector<std::string>> RevokeKeys(std::string_view id_or_name, int64_t now_s);
  Result<std::vector<KeyRecord>> Keys();

  // `user.password_hash` is a hash of HashPassword(). Errors: invalid_value, name_taken.
  Status CreateUser(const UserRecord& user);
  // Errors of these: not_found.
  Status RemoveUser(std::string_view name);
  // A serving process needs no disk to disable one.
  Status EnableUser(std::string_view name, bool enabled);
  Status ChangePassword(std::string_view name, std::string_view hash);
  Result<std::vector<UserRecord>> Users();

  // Whether somebody is shut out in memory alone.
  bool unwritten() const { return !core_->unwritten().empty(); }
  // Tries to write that down. To be called now and then; does not wait.
  void WriteUnwritten();

  // Do not wait, and are lost where the store is busy or broken.
  void NoteUse(const KeyEntry& key, int64_t now_s) const;
  void Rehash(const std::string& name, const std::string& before, const std::string& after);

 private:
  // What works on the store's thread hold on to.
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
    // `settled`: of whom the snapshot tells itself from now on.
    void Install(SnapshotRef snapshot, const ShutOut& settled);
    void Keep(const ShutOut& unwritten);

    std::atomic<bool> writing{false};  // what is unwritten

   private:
    mutable Mutex mutex_;
    SnapshotRef snapshot_ GUARDED_BY(mutex_);
    ShutOut unwritten_ GUARDED_BY(mutex_);
  };
  using Settled = std::shared_ptr<const ShutOut>;  // read when the commit stands; null: nobody

  Accounts(store::Store* store, SnapshotRef first, bool serving);
  // `work`, then a new snapshot, installed on the store's thread and so in the order of commits.
  void ChangeLater(store::Store::Work work, store::Store::Done done, Settled settled = nullptr);
  Status Change(const store::Store::Work& work, Settled settled = nullptr);
  // Whether those may be shut out in memory alone, after such an error.
  bool Withstands(const Status& error) const;
  void Tell(PrincipalKind kind, std::string_view id);

  store::Store* const store_;
  const bool serving_;
  const std::shared_ptr<Core> core_;
  Mutex listeners_mutex_;
  std::vector<std::weak_ptr<const Listener>> listeners_ GUARDED_BY(listeners_mutex_);
};

}  // namespace tutti::auth
