#include "services/auth/account_tables.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/quote.h"

namespace tutti::auth {
namespace {

using store::Database;
using store::Statement;

constexpr std::string_view kColumns =
    "SELECT id, name, digest, tenant, scopes, limits, created_s, expires_s, revoked_s, used_s "
    "FROM api_key ";

std::optional<int64_t> OptionalInt(const Statement& row, int column) {
  return row.IsNull(column) ? std::nullopt : std::optional(row.Int(column));
}

Result<KeyRecord> KeyOfRow(const Statement& row) {
  KeyRecord key;
  key.id = row.Text(0);
  key.name = row.Text(1);
  const store::Blob digest = row.Bytes(2);
  if (digest.size() != key.digest.size())
    return Status(StatusCode::kDataLoss, "record_corrupt",
                  "the store has a key without its digest");
  std::memcpy(key.digest.data(), digest.data(), digest.size());
  ASSIGN_OR_RETURN(key.grant, GrantOfRow(row.Text(3), row.Text(4), row.Text(5)));
  key.created_s = row.Int(6);
  key.expires_s = OptionalInt(row, 7);
  key.revoked_s = OptionalInt(row, 8);
  key.used_s = OptionalInt(row, 9);
  return key;
}

Result<std::vector<KeyRecord>> KeysOf(Statement rows) {
  std::vector<KeyRecord> keys;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) return keys;
    ASSIGN_OR_RETURN(KeyRecord key, KeyOfRow(rows));
    keys.push_back(std::move(key));
  }
}

Result<int64_t> CountKeys(Database& database) {
  ASSIGN_OR_RETURN(Statement row, database.Prepare("SELECT count(*) FROM api_key"));
  RETURN_IF_ERROR(row.Step().status());
  return row.Int(0);
}

// After a change of one row.
Status Found(const Database& database, std::string_view name) {
  if (database.changes() > 0) return OkStatus();
  return NotFound("not_found", "there is no user " + Quote(name));
}

Result<std::pair<int64_t, bool>> CountUsers(Database& database, std::string_view name) {
  ASSIGN_OR_RETURN(Statement row,
                   database.Prepare("SELECT count(*), ifnull(sum(name=?1), 0) FROM account"));
  RETURN_IF_ERROR(row.Bind(name).Step().status());
  return std::pair(row.Int(0), row.Int(1) != 0);
}

}  // namespace

// `scopes` and `limits` are JSON (grant.h): a new kind of limit needs no migration.
const store::Migration kAuthTables = {
    R"(CREATE TABLE api_key(
         id TEXT PRIMARY KEY, name TEXT NOT NULL, digest BLOB NOT NULL, tenant TEXT NOT NULL,
         scopes TEXT NOT NULL, limits TEXT NOT NULL, created_s INTEGER NOT NULL,
         expires_s INTEGER, revoked_s INTEGER, used_s INTEGER);
       CREATE INDEX api_key_name ON api_key(name);
       CREATE TABLE account(
         name TEXT PRIMARY KEY, password TEXT NOT NULL, tenant TEXT NOT NULL, scopes TEXT NOT NULL,
         limits TEXT NOT NULL, enabled INTEGER NOT NULL DEFAULT 1, created_s INTEGER NOT NULL)
         WITHOUT ROWID)",
    "DROP TABLE account; DROP TABLE api_key"};

bool IsActive(const KeyRecord& key, int64_t now_s) {
  return !key.revoked_s.has_value() && (!key.expires_s.has_value() || *key.expires_s > now_s);
}

Result<std::vector<KeyRecord>> LoadKeys(Database& database) {
  ASSIGN_OR_RETURN(Statement rows,
                   database.Prepare(std::string(kColumns) + "ORDER BY created_s, rowid"));
  return KeysOf(std::move(rows));
}

Result<std::vector<KeyRecord>> LoadKeysNamed(Database& database, std::string_view name) {
  ASSIGN_OR_RETURN(Statement rows, database.Prepare(std::string(kColumns) +
                                                    "WHERE name=?1 ORDER BY created_s, rowid"));
  rows.Bind(name);
  return KeysOf(std::move(rows));
}

Status InsertKey(Database& database, const KeyRecord& key, int64_t now_s) {
  RETURN_IF_ERROR(Run(database,
                      "DELETE FROM api_key WHERE min(ifnull(revoked_s, 1<<62), "
                      "ifnull(expires_s, 1<<62)) < ?1",
                      now_s - kKeptAfterEndS));
  ASSIGN_OR_RETURN(const int64_t count, CountKeys(database));
  if (count >= kMaxKeys)
    return ResourceExhausted("too_many_keys", "the store holds " + std::to_string(count) +
                                                  " keys, those that ended lately among them: no "
                                                  "more than " +
                                                  std::to_string(kMaxKeys) + " are possible");
  return Run(database,
             "INSERT INTO api_key(id, name, digest, tenant, scopes, limits, created_s, expires_s) "
             "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
             key.id, key.name, std::as_bytes(std::span(key.digest)), key.grant.tenant,
             ScopesText(key.grant.scopes), LimitsText(key.grant.limits), key.created_s,
             key.expires_s);
}

Status ExpireKey(Database& database, std::string_view id, int64_t expires_s) {
  return Run(database, "UPDATE api_key SET expires_s=min(ifnull(expires_s, 1<<62), ?2) WHERE id=?1",
             id, expires_s);
}

Status RevokeKey(Database& database, std::string_view id, int64_t now_s) {
  return Run(database, "UPDATE api_key SET revoked_s=ifnull(revoked_s, ?2) WHERE id=?1", id, now_s);
}

Status SetKeyGrant(Database& database, std::string_view id, const Grant& grant) {
  return Run(database, "UPDATE api_key SET scopes=?2, limits=?3 WHERE id=?1", id,
             ScopesText(grant.scopes), LimitsText(grant.limits));
}

Status NoteKeyUse(Database& database, std::string_view id, int64_t now_s) {
  return Run(database, "UPDATE api_key SET used_s=max(ifnull(used_s, 0), ?2) WHERE id=?1", id,
             now_s);
}

Result<std::vector<UserRecord>> LoadUsers(Database& database) {
  ASSIGN_OR_RETURN(Statement rows,
                   database.Prepare("SELECT name, password, tenant, scopes, limits, enabled, "
                                    "created_s FROM account ORDER BY name"));
  std::vector<UserRecord> users;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) return users;
    ASSIGN_OR_RETURN(Grant grant, GrantOfRow(rows.Text(2), rows.Text(3), rows.Text(4)));
    users.push_back({.name = std::string(rows.Text(0)),
                     .password_hash = std::string(rows.Text(1)),
                     .grant = std::move(grant),
                     .enabled = rows.Int(5) != 0,
                     .created_s = rows.Int(6)});
  }
}

Status InsertUser(Database& database, const UserRecord& user) {
  ASSIGN_OR_RETURN(const auto count, CountUsers(database, user.name));
  if (count.second)
    return Status(StatusCode::kAlreadyExists, "name_taken",
                  "there is a user " + Quote(user.name) + " already");
  if (count.first >= kMaxUsers)
    return ResourceExhausted("too_many_users", "the store holds " + std::to_string(count.first) +
                                                   " users: no more are possible");
  return Run(database,
             "INSERT INTO account(name, password, tenant, scopes, limits, enabled, created_s) "
             "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
             user.name, user.password_hash, user.grant.tenant, ScopesText(user.grant.scopes),
             LimitsText(user.grant.limits), user.enabled, user.created_s);
}

Status DeleteUser(Database& database, std::string_view name) {
  RETURN_IF_ERROR(Run(database, "DELETE FROM account WHERE name=?1", name));
  return Found(database, name);
}

Status SetUserEnabled(Database& database, std::string_view name, bool enabled) {
  RETURN_IF_ERROR(Run(database, "UPDATE account SET enabled=?2 WHERE name=?1", name, enabled));
  return Found(database, name);
}

Status SetUserPassword(Database& database, std::string_view name, std::string_view hash) {
  RETURN_IF_ERROR(Run(database, "UPDATE account SET password=?2 WHERE name=?1", name, hash));
  return Found(database, name);
}

Status RehashUser(Database& database, std::string_view name, std::string_view before,
                  std::string_view after) {
  return Run(database, "UPDATE account SET password=?3 WHERE name=?1 AND password=?2", name, before,
             after);
}

}  // namespace tutti::auth
