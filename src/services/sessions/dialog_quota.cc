#include "services/sessions/dialog_quota.h"

#include <vector>

#include "services/sessions/conversations.h"
#include "services/sessions/versions.h"

namespace tutti::sessions {

using store::Database;
using store::Statement;

// The maker of a conversation of an earlier release is unknown; the key of a session names its
// owner. The index has the rows of an owner in the order in which they are dropped.
const store::Migration kOwnerTables = {
    R"(ALTER TABLE dialog ADD COLUMN owner TEXT NOT NULL DEFAULT '';
       UPDATE dialog SET owner=CASE
           WHEN instr(session, '/')>0 THEN 'user:' || substr(session, 1, instr(session, '/')-1)
           WHEN project<>'' THEN 'project:' || project
           ELSE '' END
         WHERE hidden=0;
       DROP INDEX dialog_of;
       CREATE INDEX dialog_owner ON dialog(tenant, owner, used_s) WHERE hidden=0)",
    R"(DROP INDEX dialog_owner;
       CREATE INDEX dialog_of ON dialog(tenant, used_s);
       ALTER TABLE dialog DROP COLUMN owner)"};

namespace {

Result<int64_t> CountOf(Database& database, const std::string& tenant, const std::string& owner) {
  return AskInt(database, "SELECT count(*) FROM dialog WHERE tenant=?1 AND owner=?2 AND hidden=0",
                tenant, owner);
}

Status TenantHasRoom(Database& database, const std::string& tenant, int64_t most) {
  ASSIGN_OR_RETURN(
      const int64_t dialogs,
      AskInt(database, "SELECT count(*) FROM dialog WHERE tenant=?1 AND hidden=0", tenant));
  if (dialogs < most) return OkStatus();
  return ResourceExhausted("insufficient_quota", "the tenant has " + std::to_string(dialogs) +
                                                     " dialogs, limit " + std::to_string(most) +
                                                     "; delete some or wait until some expire")
      .WithExcess(dialogs + 1, most);
}

// Returns 0 if no dialog may be deleted.
Result<int64_t> LeastUsed(Database& database, const std::string& tenant, const std::string& owner,
                          int64_t spared) {
  return AskInt(database,
                "SELECT id FROM dialog WHERE tenant=?1 AND owner=?2 AND hidden=0 AND "
                "project<>'' AND id<>?3 AND NOT EXISTS (SELECT 1 FROM turn "
                "WHERE turn.dialog=dialog.id AND ended=0) ORDER BY used_s LIMIT 1",
                tenant, owner, spared);
}

Result<bool> HasSessions(Database& database, const std::string& tenant, const std::string& owner,
                         int64_t spared) {
  ASSIGN_OR_RETURN(Statement row,
                   database.Prepare("SELECT 1 FROM dialog WHERE tenant=?1 AND owner=?2 AND "
                                    "hidden=0 AND project<>'' AND id<>?3 LIMIT 1"));
  return row.Bind(tenant, owner, spared).Step();
}

Status Full(int64_t dialogs, int64_t most) {
  return ResourceExhausted("insufficient_quota",
                           "you have " + std::to_string(dialogs) + " dialogs, limit " +
                               std::to_string(most) +
                               ", and none is removed automatically; delete conversations")
      .WithExcess(dialogs + 1, most);
}

}  // namespace

std::string OwnerOf(const SessionKey& key) {
  const size_t slash = key.session.find('/');
  if (slash != std::string::npos) return "user:" + key.session.substr(0, slash);
  return key.project == kConversations ? "" : "project:" + key.project;
}

Status HasRoom(Database& database, const std::string& tenant, const std::string& owner,
               const DialogQuota& limits) {
  ASSIGN_OR_RETURN(const int64_t dialogs, CountOf(database, tenant, owner));
  if (dialogs >= limits.per_owner) return Full(dialogs, limits.per_owner);
  return TenantHasRoom(database, tenant, limits.per_tenant);
}

Status MakeRoom(Database& database, const std::string& tenant, const std::string& owner,
                const DialogQuota& limits, int64_t spared) {
  ASSIGN_OR_RETURN(const int64_t dialogs, CountOf(database, tenant, owner));
  if (dialogs < limits.per_owner) return TenantHasRoom(database, tenant, limits.per_tenant);
  ASSIGN_OR_RETURN(const int64_t oldest, LeastUsed(database, tenant, owner, spared));
  if (oldest != 0) return RemoveDialog(database, oldest);
  ASSIGN_OR_RETURN(const bool later, HasSessions(database, tenant, owner, spared));
  if (!later) return Full(dialogs, limits.per_owner);
  return ResourceExhausted("tenant_concurrency",
                           "you have " + std::to_string(dialogs) + " dialogs, limit " +
                               std::to_string(limits.per_owner) +
                               ", and each removable one has a running turn; retry later")
      .WithExcess(dialogs + 1, limits.per_owner);
}

Result<int64_t> RemoveDialogsOf(Database& database, const std::string& tenant,
                                const std::string& owner, bool waiting) {
  std::vector<int64_t> going;
  {
    ASSIGN_OR_RETURN(
        Statement rows,
        database.Prepare("SELECT id FROM dialog WHERE tenant=?1 AND owner=?2 AND hidden=0 AND "
                         "(?3 OR NOT EXISTS (SELECT 1 FROM turn "
                         "WHERE turn.dialog=dialog.id AND ended=0))"));
    rows.Bind(tenant, owner, waiting);
    ASSIGN_OR_RETURN(going, Collect(rows, [&] { return rows.Int(0); }));
  }
  for (const int64_t dialog : going) RETURN_IF_ERROR(RemoveDialog(database, dialog));
  return CountOf(database, tenant, owner);
}

Result<DialogId> EnsureDialog(Database& database, const SessionKey& key, const std::string& owner,
                              int64_t now_s, const DialogQuota& limits) {
  ASSIGN_OR_RETURN(const int64_t there, FindDialog(database, key));
  if (there != 0) return DialogId{there, false};
  const std::string of = owner.empty() ? OwnerOf(key) : owner;
  RETURN_IF_ERROR(MakeRoom(database, key.tenant, of, limits));
  ASSIGN_OR_RETURN(const int64_t id, CreateDialog(database, key, now_s, of));
  return DialogId{id, true};
}

Result<DialogId> EnsureNamedDialog(Database& database, const SessionKey& key,
                                   const std::string& owner, int64_t now_s,
                                   const DialogQuota& limits) {
  if (key.project == kConversations) {
    ASSIGN_OR_RETURN(const int64_t there, FindDialog(database, key));
    if (there == 0) return NotFound("not_found", "there is no such conversation");
    return DialogId{there, false};
  }
  return EnsureDialog(database, key, owner, now_s, limits);
}

}  // namespace tutti::sessions
