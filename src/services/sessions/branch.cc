#include "services/sessions/branch.h"

#include "base/check.h"

namespace tutti::sessions {
namespace {

using store::Database;
using store::Statement;

constexpr int64_t kMaxForks = 64;  // nesting of forks: each read follows the chain

Result<int64_t> AskInt(Database& database, std::string_view sql, int64_t dialog) {
  ASSIGN_OR_RETURN(Statement row, database.Prepare(sql));
  ASSIGN_OR_RETURN(const bool found, row.Bind(dialog).Step());
  return found ? row.Int(0) : int64_t{0};
}

Result<bool> HasForks(Database& database, int64_t dialog) {
  ASSIGN_OR_RETURN(const int64_t forks,
                   AskInt(database, "SELECT EXISTS(SELECT 1 FROM dialog WHERE parent=?1)", dialog));
  return forks != 0;
}

// Deletes hidden dialogs without forks, until there are none: a deleted fork may free its parent.
Status DropUnneeded(Database& database) {
  do {
    RETURN_IF_ERROR(Run(database,
                        "DELETE FROM dialog WHERE hidden=1 AND NOT EXISTS "
                        "(SELECT 1 FROM dialog AS fork WHERE fork.parent=dialog.id)"));
  } while (database.changes() > 0);
  return OkStatus();
}

}  // namespace

Result<int64_t> ForkDialog(Database& database, int64_t from, const ForkPoint& at,
                           const SessionKey& to, int64_t now_s, const std::string& owner) {
  ASSIGN_OR_RETURN(const int64_t before,
                   AskInt(database, std::string(kItemsOfLine) + "SELECT count(*) FROM line", from));
  if (before > kMaxForks) {
    return InvalidArgument("invalid_value", "this dialog is a fork of a fork, " +
                                                std::to_string(before - 1) + " times over");
  }
  ASSIGN_OR_RETURN(
      Statement insert,
      database.Prepare("INSERT INTO dialog(tenant, project, session, version, turns, first_place, "
                       "system_prompt, used_s, parent, parent_place, parent_version, created_s, "
                       "metadata, owner) SELECT ?2, ?3, ?4, ?5, turns, ?6, system_prompt, ?8, id, "
                       "?7, ?5, ?8, metadata, ?9 FROM dialog WHERE id=?1 RETURNING id"));
  ASSIGN_OR_RETURN(const bool row, insert
                                       .Bind(from, to.tenant, to.project, to.session, at.version,
                                             at.first_place, at.place, now_s, owner)
                                       .Step());
  if (!row) return NotFound("not_found", "there is no such dialog");
  const int64_t id = insert.Int(0);
  RETURN_IF_ERROR(insert.Run());
  RETURN_IF_ERROR(NoteVersion(database, id, 0));
  return id;
}

Status DetachItems(Database& database, int64_t dialog, int64_t now_s) {
  ASSIGN_OR_RETURN(const bool shared, HasForks(database, dialog));
  if (shared) {
    int64_t heir = 0;
    {
      // No name from a client contains char(1).
      ASSIGN_OR_RETURN(
          Statement insert,
          database.Prepare("INSERT INTO dialog(tenant, project, session, used_s, parent, "
                           "parent_place, parent_version, hidden) SELECT tenant, project, char(1) "
                           "|| id || ':' || version, ?2, parent, parent_place, parent_version, 1 "
                           "FROM dialog WHERE id=?1 RETURNING id"));
      ASSIGN_OR_RETURN(const bool row, insert.Bind(dialog, now_s).Step());
      CHECK(row);
      heir = insert.Int(0);
      RETURN_IF_ERROR(insert.Run());
    }
    RETURN_IF_ERROR(Run(database, "UPDATE item SET dialog=?2 WHERE dialog=?1", dialog, heir));
    RETURN_IF_ERROR(
        Run(database, "UPDATE dialog_version SET dialog=?2 WHERE dialog=?1", dialog, heir));
    RETURN_IF_ERROR(
        Run(database, "UPDATE dialog SET parent=?2 WHERE parent=?1 AND id<>?2", dialog, heir));
  } else {
    RETURN_IF_ERROR(Run(database, "DELETE FROM item WHERE dialog=?1", dialog));
  }
  RETURN_IF_ERROR(Run(database,
                      "UPDATE dialog SET parent=NULL, parent_place=0, parent_version=0 WHERE id=?1",
                      dialog));
  RETURN_IF_ERROR(Run(database, "DELETE FROM dialog_version WHERE dialog=?1", dialog));
  return DropUnneeded(database);
}

Status RemoveDialog(Database& database, int64_t dialog) {
  RETURN_IF_ERROR(DetachItems(database, dialog, 0));
  return Run(database, "DELETE FROM dialog WHERE id=?1", dialog);
}

}  // namespace tutti::sessions
