#include "services/sessions/versions.h"

#include <algorithm>

#include "base/check.h"

namespace tutti::sessions {
namespace {

using store::Database;
using store::Statement;

// The versions of a dialog, ?1, and of those that it was forked from up to the fork: version, place
// and first place.
constexpr const char* kVersionsOfLine =
    "WITH RECURSIVE line(id, most, latest) AS ("
    "SELECT ?1, 9000000000000000000, 9000000000000000000 UNION ALL "
    "SELECT d.parent, min(line.most, d.parent_place), min(line.latest, d.parent_version) "
    "FROM line JOIN dialog d ON d.id=line.id WHERE d.parent IS NOT NULL) "
    "SELECT v.version, v.place, v.first_place FROM line JOIN dialog_version v ON "
    "v.dialog=line.id AND v.place<=line.most AND v.version<=line.latest ";

constexpr int64_t kMaxForks = 64;  // nesting of forks: each read follows the chain

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

// For dialogs from before this migration only the latest version is known.
const store::Migration kVersionTables = {
    R"(ALTER TABLE dialog ADD COLUMN parent_version INTEGER NOT NULL DEFAULT 0;
       CREATE TABLE dialog_version(
         dialog INTEGER NOT NULL REFERENCES dialog(id) ON DELETE CASCADE, version INTEGER NOT NULL,
         place INTEGER NOT NULL, first_place INTEGER NOT NULL, PRIMARY KEY(dialog, version))
         WITHOUT ROWID;
       INSERT INTO dialog_version
         SELECT id, version, max(parent_place, coalesce(
             (SELECT max(place) FROM item WHERE item.dialog=dialog.id), 0)), first_place
           FROM dialog WHERE hidden=0)",
    R"(DROP TABLE dialog_version;
       ALTER TABLE dialog DROP COLUMN parent_version)"};

Status NoteVersion(Database& database, int64_t dialog, int64_t changed_from) {
  RETURN_IF_ERROR(Run(database, "DELETE FROM dialog_version WHERE dialog=?1 AND place>=?2", dialog,
                      changed_from));
  return Run(database,
             "INSERT OR REPLACE INTO dialog_version SELECT id, version, max(parent_place, "
             "coalesce((SELECT max(place) FROM item WHERE dialog=?1), 0)), first_place "
             "FROM dialog WHERE id=?1",
             dialog);
}

Status ForgetPrunedVersions(Database& database, int64_t dialog) {
  return Run(database,
             "DELETE FROM dialog_version WHERE dialog=?1 AND min(place, first_place)<"
             "(SELECT min(place) FROM item WHERE dialog=?1)",
             dialog);
}

Result<ForkPoint> FindVersion(Database& database, const Dialog& dialog, int64_t version) {
  if (version > dialog.version) {
    return Status(StatusCode::kFailedPrecondition, "version_mismatch",
                  "the dialog is at version " + std::to_string(dialog.version))
        .WithParam("version");
  }
  ASSIGN_OR_RETURN(Statement row, database.Prepare(std::string(kVersionsOfLine) +
                                                   "WHERE v.version=?2 ORDER BY line.id DESC "
                                                   "LIMIT 1"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(dialog.id, version).Step());
  if (found) return ForkPoint{row.Int(0), row.Int(1), row.Int(2)};
  if (version == 0) return ForkPoint{};  // the dialog is empty
  return NotFound("expired", "something that was said up to version " + std::to_string(version) +
                                 " is no longer there")
      .WithParam("version");
}

Result<ForkPoint> FindStateBefore(Database& database, const Dialog& dialog, int64_t place) {
  ASSIGN_OR_RETURN(Statement last,
                   database.Prepare(std::string(kItemsOfLine) +
                                    "SELECT coalesce(max(i.place), 0) FROM line JOIN item i ON "
                                    "i.dialog=line.id AND i.place<=line.most WHERE i.place<?2"));
  RETURN_IF_ERROR(last.Bind(dialog.id, place).Step().status());
  const int64_t end = last.Int(0);
  ASSIGN_OR_RETURN(Statement row, database.Prepare(std::string(kVersionsOfLine) +
                                                   "WHERE v.place<?2 ORDER BY v.version DESC, "
                                                   "line.id DESC LIMIT 1"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(dialog.id, place).Step());
  ForkPoint point;
  if (found) point = {row.Int(0), row.Int(1), row.Int(2)};
  if (point.place >= end) return point;
  // A version ends behind all items that came in one call, so none ends between them.
  return ForkPoint{std::max<int64_t>(point.version, 1), end, point.first_place};
}

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
