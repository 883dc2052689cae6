#include "services/sessions/dialog_quota.h"

#include "services/sessions/branch.h"
#include "services/sessions/conversations.h"

namespace tutti::sessions {
namespace {

using store::Database;
using store::Statement;

Result<int64_t> FirstInt(Database& database, const char* sql, const std::string& tenant) {
  ASSIGN_OR_RETURN(Statement row, database.Prepare(sql));
  ASSIGN_OR_RETURN(const bool found, row.Bind(tenant).Step());
  return found ? row.Int(0) : int64_t{0};
}

}  // namespace

Status MakeRoom(Database& database, const std::string& tenant, int64_t most) {
  ASSIGN_OR_RETURN(
      const int64_t dialogs,
      FirstInt(database, "SELECT count(*) FROM dialog WHERE tenant=?1 AND hidden=0", tenant));
  if (dialogs < most) return OkStatus();
  ASSIGN_OR_RETURN(const int64_t oldest,
                   FirstInt(database,
                            "SELECT id FROM dialog WHERE tenant=?1 AND hidden=0 AND project<>'' "
                            "AND NOT EXISTS (SELECT 1 FROM turn WHERE turn.dialog=dialog.id AND "
                            "ended=0) ORDER BY used_s LIMIT 1",
                            tenant));
  if (oldest != 0) return RemoveDialog(database, oldest);
  return ResourceExhausted("tenant_concurrency",
                           "there are " + std::to_string(dialogs) +
                               " dialogs already, and none of them may be dropped")
      .WithExcess(dialogs + 1, most);
}

Result<DialogId> EnsureDialog(Database& database, const SessionKey& key, int64_t now_s,
                              int64_t most) {
  ASSIGN_OR_RETURN(const int64_t there, FindDialog(database, key));
  if (there != 0) return DialogId{there, false};
  RETURN_IF_ERROR(MakeRoom(database, key.tenant, most));
  ASSIGN_OR_RETURN(const int64_t id, CreateDialog(database, key, now_s));
  return DialogId{id, true};
}

Result<DialogId> EnsureNamedDialog(Database& database, const SessionKey& key, int64_t now_s,
                                   int64_t most) {
  ASSIGN_OR_RETURN(const DialogId dialog, EnsureDialog(database, key, now_s, most));
  if (!dialog.created || key.project != kConversations) return dialog;
  return NotFound("not_found", "there is no such conversation");  // which undoes it
}

}  // namespace tutti::sessions
