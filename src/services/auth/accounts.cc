#include "services/auth/accounts.h"

#include <algorithm>
#include <future>
#include <utility>

#include "base/quote.h"

namespace tutti::auth {
namespace {

using store::Database;

// How far the note of a key's last use may be behind: one small write a minute for each key.
constexpr int64_t kUseStepS = 60;

template <typename Map>
const typename Map::mapped_type* FindOrNull(const Map& map, std::string_view key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

PrincipalRef PrincipalOf(KeyRecord key) {
  return std::make_shared<const Principal>(Principal{.kind = PrincipalKind::kKey,
                                                     .id = std::move(key.id),
                                                     .name = std::move(key.name),
                                                     .grant = std::move(key.grant),
                                                     .expires_s = key.expires_s});
}

PrincipalRef PrincipalOf(const UserRecord& user) {
  return std::make_shared<const Principal>(Principal{.kind = PrincipalKind::kUser,
                                                     .id = user.name,
                                                     .name = user.name,
                                                     .grant = user.grant,
                                                     .expires_s = std::nullopt});
}

Result<IssuedKey> NewKey(std::string name, Grant grant, std::optional<int64_t> expires_s,
                         int64_t now_s) {
  ASSIGN_OR_RETURN(std::string text, MakeKeyText());
  const std::optional<std::string_view> id = KeyIdOf(text);
  CHECK(id.has_value());
  KeyRecord record{.id = std::string(*id),
                   .name = std::move(name),
                   .digest = DigestOf(text),
                   .grant = std::move(grant),
                   .created_s = now_s,
                   .expires_s = expires_s,
                   .revoked_s = {},
                   .used_s = {}};
  return IssuedKey{std::move(record), std::move(text)};
}

Status NoKey(std::string_view id_or_name) {
  return NotFound("not_found", "there is no active key " + Quote(id_or_name));
}

void KeepActive(std::vector<KeyRecord>* keys, int64_t now_s) {
  std::erase_if(*keys, [now_s](const KeyRecord& key) { return !IsActive(key, now_s); });
}

// The active key of that id, or else those of that name. The id of a key that has ended names no
// other key.
Result<std::vector<KeyRecord>> ActiveKeys(Database& database, std::string_view id_or_name,
                                          int64_t now_s) {
  ASSIGN_OR_RETURN(std::vector<KeyRecord> keys, LoadKeys(database));
  const bool is_id = std::any_of(keys.begin(), keys.end(),
                                 [&](const KeyRecord& key) { return key.id == id_or_name; });
  KeepActive(&keys, now_s);
  std::erase_if(keys,
                [&](const KeyRecord& key) { return (is_id ? key.id : key.name) != id_or_name; });
  return keys;
}

// The active keys of that id or name according to the snapshot in memory: id to revocation time
// `now_s`.
std::map<std::string, int64_t, std::less<>> ActiveKeys(const Snapshot& snapshot,
                                                       std::string_view id_or_name, int64_t now_s) {
  const auto active = [now_s](const KeyEntry& key) {
    return !key.revoked && key.principal->expires_s.value_or(now_s + 1) > now_s;
  };
  const bool is_id = snapshot.FindKey(id_or_name) != nullptr;
  std::map<std::string, int64_t, std::less<>> keys;
  for (const auto& [id, key] : snapshot.keys) {
    if (active(key) && (is_id ? id : key.principal->name) == id_or_name) keys.emplace(id, now_s);
  }
  return keys;
}

void Apply(const KeyChange& change, Grant* grant) {
  grant->scopes.routes = change.routes.value_or(grant->scopes.routes);
  if (change.models.has_value()) grant->scopes.models = *change.models;
  for (const auto& [limit, value] : change.limits) grant->limits.*limit = value;
}

std::shared_ptr<const ShutOut> Alone(std::string_view user) {
  return std::make_shared<const ShutOut>(ShutOut{.keys = {}, .users = {std::string(user)}});
}

}  // namespace

const KeyEntry* Snapshot::FindKey(std::string_view id) const { return FindOrNull(keys, id); }
const UserEntry* Snapshot::FindUser(std::string_view name) const { return FindOrNull(users, name); }

Result<SnapshotRef> LoadSnapshot(store::Database& database) {
  const auto snapshot = std::make_shared<Snapshot>();
  ASSIGN_OR_RETURN(std::vector<KeyRecord> keys, LoadKeys(database));
  for (KeyRecord& key : keys) {
    KeyEntry& entry = snapshot->keys[key.id];
    entry.digest = key.digest;
    entry.revoked = key.revoked_s.has_value();
    entry.used_s = key.used_s.value_or(0);
    entry.principal = PrincipalOf(std::move(key));
  }
  ASSIGN_OR_RETURN(std::vector<UserRecord> users, LoadUsers(database));
  for (UserRecord& user : users) {
    UserEntry& entry = snapshot->users[user.name];
    entry.principal = PrincipalOf(user);
    entry.enabled = user.enabled;
    entry.password_hash = std::move(user.password_hash);
  }
  return SnapshotRef(snapshot);
}

SnapshotRef Without(const Snapshot& snapshot, const ShutOut& who) {
  const auto rest = std::make_shared<Snapshot>();
  for (const auto& [id, key] : snapshot.keys) {
    KeyEntry& entry = rest->keys[id];
    entry.digest = key.digest;
    entry.principal = key.principal;
    entry.revoked = key.revoked || who.keys.contains(id);
    entry.used_s = key.used_s.load(std::memory_order_relaxed);
  }
  rest->users = snapshot.users;
  for (const std::string& name : who.users) {
    if (const auto user = rest->users.find(name); user != rest->users.end())
      user->second.enabled = false;
  }
  return rest;
}

Result<const KeyEntry*> CheckKey(const Snapshot& snapshot, std::string_view text, int64_t now_s) {
  const std::optional<std::string_view> id = KeyIdOf(text);
  const KeyEntry* const entry = id.has_value() ? snapshot.FindKey(*id) : nullptr;
  static constexpr Digest kOfNobody{};
  const bool same = SameDigest(DigestOf(text), entry == nullptr ? kOfNobody : entry->digest);
  if (!same || entry == nullptr) return NotAuthenticated();
  if (entry->revoked)
    return Status(StatusCode::kUnauthenticated, "key_revoked", "this key was revoked");
  const std::optional<int64_t> expires_s = entry->principal->expires_s;
  if (expires_s.has_value() && *expires_s <= now_s)
    return Status(StatusCode::kUnauthenticated, "invalid_api_key", "this key has expired");
  return entry;
}

void Accounts::Core::Install(SnapshotRef snapshot, const ShutOut& settled) {
  const MutexLock guard(mutex_);
  for (const auto& [id, since_s] : settled.keys) unwritten_.keys.erase(id);
  for (const std::string& name : settled.users) unwritten_.users.erase(name);
  if (!unwritten_.empty()) snapshot = Without(*snapshot, unwritten_);
  snapshot_.swap(snapshot);  // the old one ends outside
}

void Accounts::Core::Keep(const ShutOut& unwritten) {
  const MutexLock guard(mutex_);
  unwritten_.keys.insert(unwritten.keys.begin(), unwritten.keys.end());
  unwritten_.users.insert(unwritten.users.begin(), unwritten.users.end());
  snapshot_ = Without(*snapshot_, unwritten_);
}

Result<std::unique_ptr<Accounts>> Accounts::Open(store::Store* store, bool serving) {
  SnapshotRef first;
  RETURN_IF_ERROR(store->ReadNow([&](Database& database) -> Status {
    ASSIGN_OR_RETURN(first, LoadSnapshot(database));
    return OkStatus();
  }));
  return std::unique_ptr<Accounts>(new Accounts(store, std::move(first), serving));
}

Accounts::Accounts(store::Store* store, SnapshotRef first, bool serving)
    : store_(store), serving_(serving), core_(std::make_shared<Core>()) {
  core_->Install(std::move(first), {});
}

bool Accounts::Withstands(const Status& error) const {
  return serving_ && (error.reason() == "store_full" || error.reason() == "store_failed");
}

void Accounts::ChangeLater(store::Store::Work work, store::Store::Done done, Settled settled) {
  const auto next = std::make_shared<SnapshotRef>();
  store_->Write(
      [work = std::move(work), next](Database& database) -> Status {
        RETURN_IF_ERROR(work(database));
        ASSIGN_OR_RETURN(*next, LoadSnapshot(database));
        return OkStatus();
      },
      [done = std::move(done), core = core_, next,
       settled = std::move(settled)](const Status& status) {
        if (status.ok()) core->Install(std::move(*next), settled == nullptr ? ShutOut() : *settled);
        done(status);
      });
}

Status Accounts::Change(const store::Store::Work& work, Settled settled) {
  std::promise<Status> result;
  ChangeLater(
      work, [&](const Status& status) { result.set_value(status); }, std::move(settled));
  return result.get_future().get();
}

std::shared_ptr<const void> Accounts::Listen(Listener listener) {
  auto token = std::make_shared<const Listener>(std::move(listener));
  const MutexLock guard(listeners_mutex_);
  std::erase_if(listeners_, [](const auto& each) { return each.expired(); });
  listeners_.push_back(token);
  return token;
}

void Accounts::NotifyListeners(PrincipalKind kind, std::string_view id) {
  std::vector<std::weak_ptr<const Listener>> listeners;
  {
    const MutexLock guard(listeners_mutex_);
    listeners = listeners_;
  }
  for (const auto& each : listeners) {
    if (const auto listener = each.lock()) (*listener)({kind, std::string(id)});
  }
}

Result<IssuedKey> Accounts::CreateKey(const KeySpec& spec, int64_t now_s) {
  RETURN_IF_ERROR(CheckNewName(spec.name));
  RETURN_IF_ERROR(CheckName(spec.grant.tenant, "tenant"));
  if (spec.expires_s.has_value() && *spec.expires_s <= now_s)
    return InvalidArgument("invalid_value", "the key would have expired already")
        .WithParam("expires_s");
  ASSIGN_OR_RETURN(IssuedKey key, NewKey(spec.name, spec.grant, spec.expires_s, now_s));
  RETURN_IF_ERROR(Change([&](Database& database) -> Status {
    ASSIGN_OR_RETURN(std::vector<KeyRecord> others, LoadKeysNamed(database, spec.name));
    KeepActive(&others, now_s);
    if (!others.empty())
      return Status(
          StatusCode::kAlreadyExists, "name_taken",
          "there is an active key " + Quote(spec.name) + " already: rotate it, or revoke it first");
    ASSIGN_OR_RETURN(const std::vector<KeyRecord> all, LoadKeys(database));
    if (std::any_of(all.begin(), all.end(),
                    [&](const KeyRecord& each) { return each.id == spec.name; }))
      return Status(StatusCode::kAlreadyExists, "name_taken",
                    Quote(spec.name) + " is the id of another key; choose another name");
    return InsertKey(database, key.record, now_s);
  }));
  return key;
}

Result<IssuedKey> Accounts::RotateKey(std::string_view name, int64_t grace_s, int64_t now_s) {
  std::optional<IssuedKey> made;
  const auto rotate = [&](Database& database) -> Status {
    ASSIGN_OR_RETURN(std::vector<KeyRecord> active, LoadKeysNamed(database, name));
    KeepActive(&active, now_s);
    if (active.empty()) return NoKey(name);
    if (active.size() > 1)
      return Status(StatusCode::kFailedPrecondition, "two_keys_active",
                    "two keys " + Quote(name) + " are active already: revoke " + active[0].id +
                        ", or wait until it ends");
    KeyRecord& before = active.front();
    // The new key lives as long as the first was meant to.
    std::optional<int64_t> expires_s;
    if (before.expires_s.has_value()) expires_s = now_s + (*before.expires_s - before.created_s);
    ASSIGN_OR_RETURN(made,
                     NewKey(std::move(before.name), std::move(before.grant), expires_s, now_s));
    RETURN_IF_ERROR(ExpireKey(database, before.id, now_s + grace_s));
    return InsertKey(database, made->record, now_s);
  };
  RETURN_IF_ERROR(Change(rotate));
  return *std::move(made);
}

Result<std::vector<KeyRecord>> Accounts::ChangeKeys(std::string_view id_or_name,
                                                    const KeyChange& change, int64_t now_s) {
  std::vector<KeyRecord> keys;
  const auto update = [&](Database& database) -> Status {
    ASSIGN_OR_RETURN(keys, ActiveKeys(database, id_or_name, now_s));
    if (keys.empty()) return NoKey(id_or_name);
    for (KeyRecord& key : keys) {
      Apply(change, &key.grant);
      RETURN_IF_ERROR(SetKeyGrant(database, key.id, key.grant));
    }
    return OkStatus();
  };
  RETURN_IF_ERROR(Change(update));
  return keys;
}

Result<std::vector<std::string>> Accounts::RevokeKeys(std::string_view id_or_name, int64_t now_s) {
  const auto out = std::make_shared<ShutOut>();
  const auto revoke = [&](Database& database) -> Status {
    ASSIGN_OR_RETURN(const std::vector<KeyRecord> keys, ActiveKeys(database, id_or_name, now_s));
    if (keys.empty()) return NoKey(id_or_name);
    for (const KeyRecord& key : keys) {
      RETURN_IF_ERROR(RevokeKey(database, key.id, now_s));
      out->keys.emplace(key.id, now_s);
    }
    return OkStatus();
  };
  if (const Status written = Change(revoke, out); !written.ok()) {
    if (!Withstands(written)) return written;
    out->keys = ActiveKeys(*snapshot(), id_or_name, now_s);
    if (out->keys.empty()) return NoKey(id_or_name);  // shut out before, in memory
    core_->Keep(*out);
  }
  std::vector<std::string> revoked;
  for (const auto& [id, since_s] : out->keys) {
    NotifyListeners(PrincipalKind::kKey, id);
    revoked.push_back(id);
  }
  return revoked;
}

Result<std::vector<KeyRecord>> Accounts::Keys() {
  std::vector<KeyRecord> keys;
  RETURN_IF_ERROR(store_->ReadNow([&](Database& database) -> Status {
    ASSIGN_OR_RETURN(keys, LoadKeys(database));
    return OkStatus();
  }));
  return keys;
}

Status Accounts::CreateUser(const UserRecord& user) {
  RETURN_IF_ERROR(CheckNewName(user.name));
  RETURN_IF_ERROR(CheckName(user.grant.tenant, "tenant"));
  return Change([&](Database& database) { return InsertUser(database, user); });
}

Status Accounts::RemoveUser(std::string_view name) {
  RETURN_IF_ERROR(
      Change([&](Database& database) { return DeleteUser(database, name); }, Alone(name)));
  NotifyListeners(PrincipalKind::kUser, name);
  return OkStatus();
}

Status Accounts::EnableUser(std::string_view name, bool enabled) {
  const Status written = Change(
      [&](Database& database) { return SetUserEnabled(database, name, enabled); }, Alone(name));
  if (!written.ok()) {
    if (enabled || !Withstands(written) || snapshot()->FindUser(name) == nullptr) return written;
    core_->Keep(*Alone(name));
  }
  if (!enabled) NotifyListeners(PrincipalKind::kUser, name);
  return OkStatus();
}

Status Accounts::ChangePassword(std::string_view name, std::string_view hash) {
  RETURN_IF_ERROR(
      Change([&](Database& database) { return SetUserPassword(database, name, hash); }));
  NotifyListeners(PrincipalKind::kUser, name);
  return OkStatus();
}

Result<std::vector<UserRecord>> Accounts::Users() {
  std::vector<UserRecord> users;
  RETURN_IF_ERROR(store_->ReadNow([&](Database& database) -> Status {
    ASSIGN_OR_RETURN(users, LoadUsers(database));
    return OkStatus();
  }));
  return users;
}

void Accounts::WriteUnwritten() {
  if (!unwritten() || core_->writing.exchange(true)) return;
  const auto out = std::make_shared<ShutOut>();
  ChangeLater(
      [core = core_, out](Database& database) -> Status {
        *out = core->unwritten();  // read now: excludes principals readmitted meanwhile
        for (const auto& [id, since_s] : out->keys)
          RETURN_IF_ERROR(RevokeKey(database, id, since_s));
        for (const std::string& name : out->users) {
          const Status disabled = SetUserEnabled(database, name, false);
          if (!disabled.ok() && disabled.reason() != "not_found") return disabled;
        }
        return OkStatus();
      },
      [core = core_](const Status&) { core->writing = false; }, out);
}

void Accounts::NoteUse(const KeyEntry& key, int64_t now_s) const {
  int64_t before = key.used_s.load(std::memory_order_relaxed);
  if (now_s - before < kUseStepS) return;
  if (!key.used_s.compare_exchange_strong(before, now_s, std::memory_order_relaxed)) return;
  store_->Write([id = key.principal->id,
                 now_s](Database& database) { return NoteKeyUse(database, id, now_s); },
                [](const Status&) {});
}

void Accounts::Rehash(const std::string& name, const std::string& before,
                      const std::string& after) {
  ChangeLater([=](Database& database) { return RehashUser(database, name, before, after); },
              [](const Status&) {});
}

}  // namespace tutti::auth
