#include "services/auth/key_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

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

}  // namespace

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

Status NoteKeyUse(Database& database, std::string_view id, int64_t now_s) {
  return Run(database, "UPDATE api_key SET used_s=max(ifnull(used_s, 0), ?2) WHERE id=?1", id,
             now_s);
}

}  // namespace tutti::auth
