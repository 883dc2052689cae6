#include "services/sessions/history.h"

#include <algorithm>
#include <string_view>

#include "api/names.h"
#include "base/check.h"
#include "protocol/json/json_writer.h"
#include "protocol/responses/input_items.h"
#include "services/responses/request_json.h"
#include "services/sessions/versions.h"

namespace tutti::sessions {
namespace {

using store::Database;
using store::Statement;

constexpr size_t kMaxNameBytes = 512;
// In the column of roles, of items that are no messages.
constexpr std::string_view kCallRole = "function_call", kCallOutputRole = "function_call_output",
                           kReasoningRole = "reasoning";

bool IsName(const std::string& name) {
  return name.size() <= kMaxNameBytes && std::none_of(name.begin(), name.end(), [](char c) {
           return static_cast<unsigned char>(c) < ' ';
         });
}

Result<std::vector<Accepted>> ReadTurns(Statement& rows) {
  return Collect(rows, [&] {
    return Accepted{.turn = rows.Int(0),
                    .message_id = std::string(rows.Text(1)),
                    .request = std::string(rows.Text(2)),
                    .response_id = std::string(rows.Text(3)),
                    .fingerprint = rows.Int(4)};
  });
}

// The place after all own and shared items.
Result<int64_t> NextPlace(Database& database, int64_t dialog) {
  ASSIGN_OR_RETURN(
      Statement row,
      database.Prepare("SELECT max(parent_place, coalesce((SELECT max(place) FROM item WHERE "
                       "dialog=?1), 0)) + 1 FROM dialog WHERE id=?1"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(dialog).Step());
  return found ? row.Int(0) : int64_t{1};
}

}  // namespace

Status CheckKey(const SessionKey& key) {
  if (!key.session.empty() && IsName(key.session) && IsName(key.project) &&
      key.project.find('/') == std::string::npos)
    return OkStatus();
  return InvalidArgument("invalid_value", "this can be no session's name").WithParam("session");
}

api::ChatMessage MessageOf(const Item& item) {
  api::ChatMessage message{item.role, item.content, ""};
  if (item.call.has_value()) message.tool_calls = {*item.call};
  message.tool_call_id = item.tool_call_id;
  message.reasoning = item.reasoning;
  return message;
}

Item ItemOf(const api::ChatMessage& message) {
  Item item{.role = message.role, .content = message.content};
  if (!message.tool_calls.empty()) item.call = message.tool_calls.front();
  item.tool_call_id = message.tool_call_id;
  if (protocol::IsReasoning(message)) item.reasoning = message.reasoning;
  return item;
}

std::string CountedText(const Item& item) {
  if (!item.reasoning.empty()) return item.reasoning;
  return item.call.has_value() ? item.call->name + " " + item.call->arguments : item.content;
}

std::string_view StoredRole(const Item& item) {
  if (item.call.has_value()) return kCallRole;
  if (!item.reasoning.empty()) return kReasoningRole;
  return item.role == api::Role::kTool ? kCallOutputRole : api::RoleName(item.role);
}

std::string StoredContent(const Item& item) {
  if (!item.reasoning.empty()) return item.reasoning;
  if (!item.call.has_value() && item.role != api::Role::kTool) return item.content;
  std::string out;
  protocol::JsonWriter json(&out);
  json.BeginObject();
  if (item.call.has_value()) {
    json.Member("call_id", item.call->id).Member("name", item.call->name);
    json.Member("arguments", item.call->arguments);
  } else {
    json.Member("call_id", item.tool_call_id).Member("output", item.content);
  }
  json.EndObject();
  return out;
}

Status Restore(std::string_view role, std::string content, Item* item) {
  if (role == kReasoningRole && !content.empty()) {
    item->role = api::Role::kAssistant;
    item->reasoning = std::move(content);
    return OkStatus();
  }
  if (role != kCallRole && role != kCallOutputRole) {
    item->role = api::FindRole(role).value_or(api::Role::kUser);
    item->content = std::move(content);
    return OkStatus();
  }
  const Result<protocol::JsonDocument> document = protocol::ParseJson(content);
  if (!document.ok()) return responses::CorruptRecord("an item that is no JSON");
  const responses::StoredObject fields(document->root());
  if (role == kCallRole) {
    item->role = api::Role::kAssistant;
    item->call = {fields.Text("call_id"), fields.Text("name"), fields.Text("arguments")};
  } else {
    item->role = api::Role::kTool;
    item->tool_call_id = fields.Text("call_id");
    item->content = fields.Text("output");
  }
  return OkStatus();
}

Result<std::vector<Item>> ReadItems(Statement& rows) {
  std::vector<Item> items;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) return items;
    Item item;
    RETURN_IF_ERROR(Restore(rows.Text(1), std::string(rows.Text(2)), &item));
    item.turn = rows.Int(0);
    item.tokens = static_cast<int>(rows.Int(3));
    item.incomplete = rows.Int(4) != 0;
    item.id = std::string(rows.Text(5));
    item.place = rows.Int(6);
    items.push_back(std::move(item));
  }
}

Status InsertItem(Database& database, int64_t dialog, int64_t seq, const Item& item) {
  return Run(database,
             "INSERT INTO item(dialog, turn, seq, role, content, tokens, incomplete, item_id, "
             "place) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
             dialog, item.turn, seq, StoredRole(item), StoredContent(item), item.tokens,
             item.incomplete, item.id, item.place);
}

Result<std::optional<Dialog>> LoadDialog(Database& database, const SessionKey& key,
                                         std::optional<int64_t> from_place) {
  Dialog dialog;
  {
    ASSIGN_OR_RETURN(
        Statement row,
        database.Prepare("SELECT id, version, turns, first_place, system_prompt, used_s, "
                         "created_s, metadata, owner FROM dialog "
                         "WHERE tenant=?1 AND project=?2 AND session=?3"));
    ASSIGN_OR_RETURN(const bool found, row.Bind(key.tenant, key.project, key.session).Step());
    if (!found) return std::optional<Dialog>();
    dialog = {.id = row.Int(0),
              .version = row.Int(1),
              .turns = row.Int(2),
              .first_place = row.Int(3),
              .system_prompt = std::string(row.Text(4)),
              .items = {},
              .used_s = row.Int(5),
              .created_s = row.Int(6),
              .metadata = std::string(row.Text(7)),
              .owner = std::string(row.Text(8))};
  }
  ASSIGN_OR_RETURN(dialog.next_place, NextPlace(database, dialog.id));
  ASSIGN_OR_RETURN(
      Statement rows,
      database.Prepare(std::string(kItemsOfLine) + "SELECT " + std::string(kItemColumns) +
                       " FROM line JOIN item i ON i.dialog=line.id AND "
                       "i.place BETWEEN ?2 AND line.most "
                       "ORDER BY i.place, i.turn, i.seq"));
  rows.Bind(dialog.id, from_place.value_or(dialog.first_place));
  ASSIGN_OR_RETURN(dialog.items, ReadItems(rows));
  return std::optional<Dialog>(std::move(dialog));
}

Result<int64_t> FindDialog(Database& database, const SessionKey& key) {
  return AskInt(database, "SELECT id FROM dialog WHERE tenant=?1 AND project=?2 AND session=?3",
                key.tenant, key.project, key.session);
}

Result<int64_t> CreateDialog(Database& database, const SessionKey& key, int64_t now_s,
                             const std::string& owner) {
  ASSIGN_OR_RETURN(Statement insert,
                   database.Prepare("INSERT INTO dialog(tenant, project, session, used_s, "
                                    "created_s, owner) VALUES(?1, ?2, ?3, ?4, ?4, ?5) "
                                    "RETURNING id"));
  ASSIGN_OR_RETURN(const bool row,
                   insert.Bind(key.tenant, key.project, key.session, now_s, owner).Step());
  CHECK(row);
  const int64_t id = insert.Int(0);
  RETURN_IF_ERROR(insert.Run());
  return id;
}

Status AcceptTurn(Database& database, int64_t dialog, const Accepted& message, int64_t now_s) {
  RETURN_IF_ERROR(Run(database, "DELETE FROM turn WHERE dialog=?1 AND ended=1 AND turn<=?2", dialog,
                      message.turn - kRememberedTurns));
  RETURN_IF_ERROR(Run(database,
                      "INSERT INTO turn(dialog, turn, message_id, request, response_id, "
                      "fingerprint) VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
                      dialog, message.turn, message.message_id, message.request,
                      message.response_id, message.fingerprint));
  return Run(database, "UPDATE dialog SET turns=max(turns, ?2), used_s=?3 WHERE id=?1", dialog,
             message.turn, now_s);
}

Result<std::vector<Accepted>> PendingTurns(Database& database, int64_t dialog) {
  ASSIGN_OR_RETURN(Statement rows,
                   database.Prepare("SELECT turn, message_id, request, response_id, fingerprint "
                                    "FROM turn WHERE dialog=?1 AND ended=0 ORDER BY turn"));
  rows.Bind(dialog);
  return ReadTurns(rows);
}

Result<std::vector<Accepted>> EndedTurns(Database& database, int64_t dialog) {
  ASSIGN_OR_RETURN(Statement rows,
                   database.Prepare("SELECT turn, message_id, '', response_id, fingerprint "
                                    "FROM turn WHERE dialog=?1 AND ended=1 ORDER BY turn"));
  rows.Bind(dialog);
  return ReadTurns(rows);
}

Result<bool> HasPendingTurn(Database& database, const std::string& tenant,
                            const std::string& response_id) {
  ASSIGN_OR_RETURN(Statement row,
                   database.Prepare("SELECT 1 FROM turn t JOIN dialog d ON d.id=t.dialog WHERE "
                                    "t.ended=0 AND t.response_id=?1 AND d.tenant=?2"));
  return row.Bind(response_id, tenant).Step();
}

Result<std::vector<SessionKey>> PendingSessions(Database& database) {
  ASSIGN_OR_RETURN(Statement rows,
                   database.Prepare("SELECT tenant, project, session FROM dialog WHERE id IN "
                                    "(SELECT dialog FROM turn WHERE ended=0) ORDER BY used_s"));
  return Collect(rows, [&] {
    return SessionKey{std::string(rows.Text(0)), std::string(rows.Text(1)),
                      std::string(rows.Text(2))};
  });
}

Result<int64_t> CountPending(Database& database) {
  return AskInt(database, "SELECT count(*) FROM turn WHERE ended=0");
}

Status CheckVersion(int64_t now, std::optional<int64_t> expected) {
  if (expected.value_or(now) == now) return OkStatus();
  return Status(StatusCode::kFailedPrecondition, "version_mismatch",
                "the dialog is at version " + std::to_string(now));
}

Status EndTurn(Database& database, int64_t dialog, std::optional<int64_t> version,
               const Outcome& outcome, int64_t now_s, int64_t raised) {
  RETURN_IF_ERROR(Run(database,
                      "UPDATE dialog SET version=version+?3, first_place=max(first_place, ?4), "
                      "used_s=?5 WHERE id=?1 AND version BETWEEN coalesce(?2, version) AND "
                      "coalesce(?2+?6, version)",
                      dialog, version, outcome.items.empty() ? 0 : 1, outcome.first_place, now_s,
                      raised));
  if (database.changes() == 0) {
    return Status(StatusCode::kFailedPrecondition, "version_mismatch",
                  "the history of this dialog has changed meanwhile");
  }
  RETURN_IF_ERROR(Run(database,
                      "UPDATE turn SET ended=1, error=?3, request='' "
                      "WHERE dialog=?1 AND turn=?2 AND ended=0",
                      dialog, outcome.turn, outcome.error));
  if (database.changes() == 0)
    return Status(StatusCode::kFailedPrecondition, "turn_ended", "this turn has ended already");
  if (outcome.items.empty()) return OkStatus();
  const int64_t place = outcome.place == 0 ? outcome.turn : outcome.place;
  int64_t seq = 0;
  for (Item item : outcome.items) {
    item.turn = outcome.turn;
    item.place = place;
    RETURN_IF_ERROR(InsertItem(database, dialog, seq++, item));
  }
  RETURN_IF_ERROR(NoteVersion(database, dialog, place));
  return PruneItems(database, dialog);
}

Status PruneItems(Database& database, int64_t dialog, const DialogLimits& limits) {
  while (true) {
    {
      ASSIGN_OR_RETURN(Statement row,
                       database.Prepare("SELECT items<=?2 AND bytes<=?3 FROM dialog WHERE id=?1"));
      ASSIGN_OR_RETURN(const bool found, row.Bind(dialog, limits.items, limits.bytes).Step());
      if (!found || row.Int(0) != 0) return OkStatus();
    }
    RETURN_IF_ERROR(Run(database,
                        "DELETE FROM item WHERE dialog=?1 AND place=(SELECT min(place) FROM "
                        "item WHERE dialog=?1) AND place<(SELECT first_place FROM dialog WHERE "
                        "id=?1)",
                        dialog));
    if (database.changes() == 0) return OkStatus();
    RETURN_IF_ERROR(ForgetPrunedVersions(database, dialog));
  }
}

Status CheckRoom(Database& database, int64_t dialog, int64_t items, int64_t bytes,
                 const DialogLimits& limits) {
  ASSIGN_OR_RETURN(Statement row, database.Prepare("SELECT items, bytes FROM dialog WHERE id=?1"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(dialog).Step());
  if (!found || (row.Int(0) + items <= limits.items && row.Int(1) + bytes <= limits.bytes))
    return OkStatus();
  return ResourceExhausted("request_too_large", "the dialog has " + std::to_string(row.Int(0)) +
                                                    " items of " + std::to_string(row.Int(1)) +
                                                    " bytes already");
}

Status ClearDialog(Database& database, int64_t dialog, int64_t now_s, int64_t last_turn) {
  RETURN_IF_ERROR(
      Run(database, "DELETE FROM turn WHERE dialog=?1 AND turn<=?2", dialog, last_turn));
  RETURN_IF_ERROR(DetachItems(database, dialog, now_s));
  RETURN_IF_ERROR(Run(database,
                      "UPDATE dialog SET version=version+1, first_place=1, used_s=?2 WHERE id=?1",
                      dialog, now_s));
  return NoteVersion(database, dialog, 0);
}

Status DeleteDialog(Database& database, int64_t dialog) { return RemoveDialog(database, dialog); }

Status SetSystemPrompt(Database& database, int64_t dialog, const std::string& prompt,
                       int64_t now_s) {
  return Run(database, "UPDATE dialog SET system_prompt=?2, used_s=?3 WHERE id=?1", dialog, prompt,
             now_s);
}

Result<int64_t> DeleteUnused(Database& database, int64_t before_s, int64_t conversations_before_s) {
  std::vector<int64_t> unused;
  {
    ASSIGN_OR_RETURN(
        Statement rows,
        database.Prepare(
            "SELECT id FROM dialog WHERE hidden=0 AND used_s<max(?1, ?2) AND "
            "used_s<iif(project='', ?2, ?1) AND NOT EXISTS "
            "(SELECT 1 FROM turn WHERE turn.dialog=dialog.id AND ended=0) LIMIT 1000"));
    rows.Bind(before_s, conversations_before_s);
    ASSIGN_OR_RETURN(unused, Collect(rows, [&] { return rows.Int(0); }));
  }
  for (const int64_t dialog : unused) RETURN_IF_ERROR(RemoveDialog(database, dialog));
  return static_cast<int64_t>(unused.size());
}

Result<Profile> LoadProfile(Database& database, const std::string& tenant,
                            const std::string& project) {
  ASSIGN_OR_RETURN(Statement row, database.Prepare("SELECT version, system_prompt FROM profile "
                                                   "WHERE tenant=?1 AND project=?2"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(tenant, project).Step());
  if (!found) return Profile();
  return Profile{row.Int(0), std::string(row.Text(1))};
}

Status HasRoomForProfile(Database& database, const std::string& tenant, const std::string& project,
                         int64_t most) {
  ASSIGN_OR_RETURN(Statement others, database.Prepare("SELECT count(*) FROM profile WHERE "
                                                      "tenant=?1 AND project<>?2"));
  ASSIGN_OR_RETURN(const bool row, others.Bind(tenant, project).Step());
  if (!row || others.Int(0) < most) return OkStatus();
  return ResourceExhausted("tenant_concurrency",
                           "there are " + std::to_string(most) + " projects already");
}

Result<int64_t> SetProfile(Database& database, const std::string& tenant,
                           const std::string& project, const std::string& prompt, int64_t most) {
  ASSIGN_OR_RETURN(const Profile before, LoadProfile(database, tenant, project));
  if (before.version > 0 && before.system_prompt == prompt) return before.version;
  RETURN_IF_ERROR(HasRoomForProfile(database, tenant, project, most));
  RETURN_IF_ERROR(Run(database,
                      "INSERT INTO profile VALUES(?1, ?2, 1, ?3) ON CONFLICT(tenant, project) "
                      "DO UPDATE SET "
                      "version=version+1, system_prompt=excluded.system_prompt",
                      tenant, project, prompt));
  return before.version + 1;
}

}  // namespace tutti::sessions
