#include "services/auth/user_table.h"

#include <utility>

#include "base/quote.h"

namespace tutti::auth {
namespace {

using store::Database;
using store::Statement;

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
