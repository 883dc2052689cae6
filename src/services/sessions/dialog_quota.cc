#include "services/sessions/dialog_quota.h"

#include "services/sessions/branch.h"
#include "services/sessions/conversations.h"

namespace tutti::sessions {
namespace {

using store::Database;
using store::Statement;

Result<int64_t> CountDialogs(Database& database, const std::string& tenant) {
  ASSIGN_OR_RETURN(Statement row, database.Prepare("SELECT count(*) FROM dialog WHERE tenant=?1 "
                                                   "AND hidden=0"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(tenant).Step());
  return found ? row.Int(0) : int64_t{0};
}

// 0: none may go.
Result<int64_t> LeastUsed(Database& database, const std::string& tenant, int64_t spared) {
  ASSIGN_OR_RETURN(Statement row,
                   database.Prepare("SELECT id FROM dialog WHERE tenant=?1 AND hidden=0 AND "
                                    "project<>'' AND id<>?2 AND NOT EXISTS (SELECT 1 FROM turn "
                                    "WHERE turn.dialog=dialog.id AND ended=0) "
                                    "ORDER BY used_s LIMIT 1"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(tenant, spared).Step());
  return found ? row.Int(0) : int64_t{0};
}

}  // namespace

Status HasRoom(Database& database, const std::string& tenant, int64_t most) {
  ASSIGN_OR_RETURN(const int64_t dialogs, CountDialogs(database, tenant));
  if (dialogs < most) return OkStatus();
  return ResourceExhausted("tenant_concurrency",
                           "there are " + std::to_string(dialogs) +
                               " dialogs already, and none of them may be dropped")
      .WithExcess(dialogs + 1, most);
}

Status MakeRoom(Database& database, const std::string& tenant, int64_t most, int64_t spared) {
  const Status room = HasRoom(database, tenant, most);
  if (room.reason() != "tenant_concurrency") return room;
  ASSIGN_OR_RETURN(const int64_t oldest, LeastUsed(database, tenant, spared));
  return oldest != 0 ? RemoveDialog(database, oldest) : room;
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
