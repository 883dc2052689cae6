#include "services/auth/snapshot.h"

#include <utility>

#include "services/auth/key_table.h"
#include "services/auth/user_table.h"

namespace tutti::auth {
namespace {

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

}  // namespace tutti::auth
