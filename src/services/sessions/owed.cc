#include "services/sessions/owed.h"

namespace tutti::sessions {

using store::Database;
using store::Statement;

const store::Migration kOwedTables = {
    R"(CREATE TABLE owed(
         dialog INTEGER NOT NULL, turn INTEGER NOT NULL, reply_to TEXT NOT NULL,
         PRIMARY KEY(dialog, turn),
         FOREIGN KEY(dialog, turn) REFERENCES turn(dialog, turn) ON DELETE CASCADE) WITHOUT ROWID)",
    "DROP TABLE owed"};

Status Owe(Database& database, int64_t dialog, int64_t turn, const std::string& reply_to) {
  return Run(database, "INSERT INTO owed VALUES(?1, ?2, ?3)", dialog, turn, reply_to);
}

Result<std::vector<OwedAnswer>> ReadOwed(Database& database, const OwedPlace& after, int64_t most) {
  ASSIGN_OR_RETURN(
      Statement rows,
      database.Prepare("SELECT o.dialog, o.turn, d.tenant, d.project, d.session, t.message_id, "
                       "o.reply_to FROM owed o JOIN dialog d ON d.id=o.dialog "
                       "JOIN turn t ON t.dialog=o.dialog AND t.turn=o.turn "
                       "WHERE (o.dialog, o.turn) > (?1, ?2) ORDER BY o.dialog, o.turn LIMIT ?3"));
  rows.Bind(after.dialog, after.turn, most);
  std::vector<OwedAnswer> owed;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) return owed;
    owed.push_back(
        {.place = {rows.Int(0), rows.Int(1)},
         .key = {std::string(rows.Text(2)), std::string(rows.Text(3)), std::string(rows.Text(4))},
         .message_id = std::string(rows.Text(5)),
         .reply_to = std::string(rows.Text(6))});
  }
}

Status ForgetOwed(Database& database, const SessionKey& key, int64_t turn) {
  return Run(database,
             "DELETE FROM owed WHERE turn=?4 AND dialog=(SELECT id FROM dialog WHERE tenant=?1 "
             "AND project=?2 AND session=?3)",
             key.tenant, key.project, key.session, turn);
}

}  // namespace tutti::sessions
