#include "services/sessions/versions.h"

#include <string>

namespace tutti::sessions {

using store::Database;
using store::Statement;

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
  ASSIGN_OR_RETURN(
      Statement row,
      database.Prepare(
          "WITH RECURSIVE line(id, most, latest) AS ("
          "SELECT ?1, 9000000000000000000, 9000000000000000000 UNION ALL "
          "SELECT d.parent, min(line.most, d.parent_place), min(line.latest, d.parent_version) "
          "FROM line JOIN dialog d ON d.id=line.id WHERE d.parent IS NOT NULL) "
          "SELECT v.place, v.first_place FROM line JOIN dialog_version v ON v.dialog=line.id AND "
          "v.place<=line.most AND v.version<=line.latest WHERE v.version=?2 "
          "ORDER BY line.id DESC LIMIT 1"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(dialog.id, version).Step());
  if (found) return ForkPoint{version, row.Int(0), row.Int(1)};
  if (version == 0) return ForkPoint{};  // the dialog is empty
  return NotFound("expired", "something that was said up to version " + std::to_string(version) +
                                 " is no longer there")
      .WithParam("version");
}

}  // namespace tutti::sessions
