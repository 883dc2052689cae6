#include "services/sessions/history.h"

#include <array>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace tutti::sessions {
namespace {

using store::Database;
using store::Statement;

constexpr std::array<std::pair<api::Role, std::string_view>, 4> kRoles = {
    {{api::Role::kSystem, "system"},
     {api::Role::kUser, "user"},
     {api::Role::kAssistant, "assistant"},
     {api::Role::kTool, "tool"}}};

std::string_view NameOf(api::Role role) {
  for (const auto& [each, name] : kRoles) {
    if (each == role) return name;
  }
  CHECK(false) << "an unknown role";
  return {};
}

Result<api::Role> RoleOf(std::string_view name) {
  for (const auto& [role, each] : kRoles) {
    if (each == name) return role;
  }
  return Status(StatusCode::kDataLoss, "store_corrupt", "the store has an item of no known role");
}

template <typename... Values>
Status Run(Database& database, std::string_view sql, const Values&... values) {
  ASSIGN_OR_RETURN(Statement statement, database.Prepare(sql));
  return statement.Bind(values...).Run();
}

Result<std::vector<Item>> ItemsOf(Database& database, int64_t dialog) {
  ASSIGN_OR_RETURN(Statement rows,
                   database.Prepare("SELECT turn, role, content, tokens, incomplete FROM item "
                                    "WHERE dialog=?1 ORDER BY turn, seq"));
  rows.Bind(dialog);
  std::vector<Item> items;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) return items;
    ASSIGN_OR_RETURN(const api::Role role, RoleOf(rows.Text(1)));
    items.push_back({.turn = rows.Int(0),
                     .role = role,
                     .content = std::string(rows.Text(2)),
                     .tokens = static_cast<int>(rows.Int(3)),
                     .incomplete = rows.Int(4) != 0});
  }
}

}  // namespace

const store::Migration kHistoryTables = {
    R"(CREATE TABLE dialog(
         id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, project TEXT NOT NULL, session TEXT NOT NULL,
         version INTEGER NOT NULL DEFAULT 0, turns INTEGER NOT NULL DEFAULT 0,
         first_turn INTEGER NOT NULL DEFAULT 1, system_prompt TEXT NOT NULL DEFAULT '',
         used_s INTEGER NOT NULL, UNIQUE(tenant, project, session));
       CREATE INDEX dialog_used ON dialog(used_s);
       CREATE TABLE item(
         dialog INTEGER NOT NULL REFERENCES dialog(id) ON DELETE CASCADE, turn INTEGER NOT NULL,
         seq INTEGER NOT NULL, role TEXT NOT NULL, content TEXT NOT NULL, tokens INTEGER NOT NULL,
         incomplete INTEGER NOT NULL, PRIMARY KEY(dialog, turn, seq)) WITHOUT ROWID;
       CREATE TABLE turn(
         dialog INTEGER NOT NULL REFERENCES dialog(id) ON DELETE CASCADE, turn INTEGER NOT NULL,
         message_id TEXT NOT NULL, request TEXT NOT NULL, ended INTEGER NOT NULL DEFAULT 0,
         error TEXT NOT NULL DEFAULT '', PRIMARY KEY(dialog, turn), UNIQUE(dialog, message_id))
         WITHOUT ROWID)",
    "DROP TABLE turn; DROP TABLE item; DROP TABLE dialog"};

Result<std::optional<Dialog>> LoadDialog(Database& database, const SessionKey& key) {
  ASSIGN_OR_RETURN(
      Statement row,
      database.Prepare("SELECT id, version, turns, first_turn, system_prompt, used_s FROM dialog "
                       "WHERE tenant=?1 AND project=?2 AND session=?3"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(key.tenant, key.project, key.session).Step());
  if (!found) return std::optional<Dialog>();
  Dialog dialog{.id = row.Int(0),
                .version = row.Int(1),
                .turns = row.Int(2),
                .first_turn = row.Int(3),
                .system_prompt = std::string(row.Text(4)),
                .items = {},
                .used_s = row.Int(5)};
  ASSIGN_OR_RETURN(dialog.items, ItemsOf(database, dialog.id));
  return std::optional<Dialog>(std::move(dialog));
}

Result<int64_t> CreateDialog(Database& database, const SessionKey& key, int64_t now_s) {
  ASSIGN_OR_RETURN(Statement insert,
                   database.Prepare("INSERT INTO dialog(tenant, project, session, used_s) "
                                    "VALUES(?1, ?2, ?3, ?4) RETURNING id"));
  ASSIGN_OR_RETURN(const bool row, insert.Bind(key.tenant, key.project, key.session, now_s).Step());
  CHECK(row);
  const int64_t id = insert.Int(0);
  RETURN_IF_ERROR(insert.Run());
  return id;
}

Status AcceptTurn(Database& database, int64_t dialog, const Accepted& message, int64_t now_s) {
  RETURN_IF_ERROR(Run(database,
                      "INSERT INTO turn(dialog, turn, message_id, request) VALUES(?1, ?2, ?3, ?4)",
                      dialog, message.turn, message.message_id, message.request));
  return Run(database, "UPDATE dialog SET turns=max(turns, ?2), used_s=?3 WHERE id=?1", dialog,
             message.turn, now_s);
}

Result<std::vector<Accepted>> PendingTurns(Database& database, int64_t dialog) {
  ASSIGN_OR_RETURN(Statement rows, database.Prepare("SELECT turn, message_id, request FROM turn "
                                                    "WHERE dialog=?1 AND ended=0 ORDER BY turn"));
  rows.Bind(dialog);
  std::vector<Accepted> pending;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) return pending;
    pending.push_back({rows.Int(0), std::string(rows.Text(1)), std::string(rows.Text(2))});
  }
}

Status EndTurn(Database& database, int64_t dialog, int64_t version, const Outcome& outcome,
               int64_t now_s) {
  RETURN_IF_ERROR(Run(database,
                      "UPDATE dialog SET version=version+?3, first_turn=?4, used_s=?5 "
                      "WHERE id=?1 AND version=?2",
                      dialog, version, outcome.items.empty() ? 0 : 1, outcome.first_turn, now_s));
  if (database.changes() == 0)
    return Status(StatusCode::kAborted, "version_mismatch",
                  "the history of this dialog has changed meanwhile");
  RETURN_IF_ERROR(Run(database,
                      "UPDATE turn SET ended=1, error=?3, request='' "
                      "WHERE dialog=?1 AND turn=?2 AND ended=0",
                      dialog, outcome.turn, outcome.error));
  if (database.changes() == 0)
    return Status(StatusCode::kFailedPrecondition, "turn_ended", "this turn has ended already");
  int64_t seq = 0;
  for (const Item& item : outcome.items) {
    RETURN_IF_ERROR(Run(database, "INSERT INTO item VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)", dialog,
                        outcome.turn, seq++, NameOf(item.role), item.content, item.tokens,
                        item.incomplete));
  }
  return OkStatus();
}

Status ClearDialog(Database& database, int64_t dialog, int64_t now_s) {
  RETURN_IF_ERROR(Run(database, "DELETE FROM item WHERE dialog=?1", dialog));
  RETURN_IF_ERROR(Run(database, "DELETE FROM turn WHERE dialog=?1", dialog));
  return Run(database,
             "UPDATE dialog SET version=version+1, first_turn=turns+1, used_s=?2 WHERE id=?1",
             dialog, now_s);
}

Status DeleteDialog(Database& database, int64_t dialog) {
  return Run(database, "DELETE FROM dialog WHERE id=?1", dialog);
}

Status SetSystemPrompt(Database& database, int64_t dialog, const std::string& prompt,
                       int64_t now_s) {
  return Run(database, "UPDATE dialog SET system_prompt=?2, used_s=?3 WHERE id=?1", dialog, prompt,
             now_s);
}

Result<int64_t> DeleteUnused(Database& database, int64_t before_s) {
  RETURN_IF_ERROR(Run(database,
                      "DELETE FROM dialog WHERE used_s<?1 AND NOT EXISTS "
                      "(SELECT 1 FROM turn WHERE turn.dialog=dialog.id AND ended=0)",
                      before_s));
  return database.changes();
}

}  // namespace tutti::sessions
