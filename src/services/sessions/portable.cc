#include "services/sessions/portable.h"

#include <algorithm>
#include <utility>

#include "api/names.h"
#include "protocol/json/json_writer.h"
#include "services/responses/request_json.h"
#include "services/sessions/versions.h"

namespace tutti::sessions {
namespace {

using responses::StoredObject;
using store::Database;
using store::Statement;

constexpr size_t kPageBytes = 4 << 20;
constexpr size_t kMaxText = 256 << 10;  // of a prompt or metadata
constexpr size_t kMaxOwner = 2048;      // bytes: a project's name and a user's
constexpr int64_t kMaxCount = 1'000'000'000'000;
constexpr int64_t kMaxTokens = 256 << 10;  // of an item

std::string WriteDialog(const SessionKey& key, const Dialog& dialog) {
  std::string out;
  protocol::JsonWriter json(&out);
  json.BeginObject().Member("object", "dialog").Member("project", key.project);
  json.Member("session", key.session).Member("version", dialog.version);
  json.Member("turns", dialog.turns).Member("first_place", dialog.first_place);
  json.Member("system_prompt", dialog.system_prompt).Member("created_at", dialog.created_s);
  json.Member("metadata", dialog.metadata).Member("owner", dialog.owner).Key("items").BeginArray();
  for (const Item& item : dialog.items) {
    json.BeginObject().Member("id", item.id).Member("turn", item.turn).Member("place", item.place);
    json.Member("role", StoredRole(item)).Member("content", StoredContent(item));
    json.Member("tokens", item.tokens).Member("incomplete", item.incomplete).EndObject();
  }
  json.EndArray().EndObject();
  return out;
}

std::string WriteProfile(const std::string& project, const Profile& profile) {
  std::string out;
  protocol::JsonWriter json(&out);
  json.BeginObject().Member("object", "project").Member("project", project);
  json.Member("version", profile.version).Member("system_prompt", profile.system_prompt);
  json.EndObject();
  return out;
}

Status Foreign(std::string what) { return InvalidArgument("invalid_value", std::move(what)); }

// The projects' prompts, all at once: they are bounded in number.
Status ExportProfiles(Database& database, const std::string& tenant, ExportedLines* out) {
  ASSIGN_OR_RETURN(Statement rows,
                   database.Prepare("SELECT project, version, system_prompt FROM profile WHERE "
                                    "tenant=?1 ORDER BY project"));
  rows.Bind(tenant);
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) return OkStatus();
    out->lines.push_back(
        WriteProfile(std::string(rows.Text(0)), {rows.Int(1), std::string(rows.Text(2))}));
  }
}

// Later numbers are counted from those of a line, so none may be near the end of its type.
Result<int64_t> CountIn(const StoredObject& fields, std::string_view name, int64_t least,
                        int64_t most) {
  const int64_t value = fields.Int(name, least);
  if (value >= least && value <= most) return value;
  return Foreign(std::string(name) + " is out of range");
}

// Imports items. Turn numbers above the dialog's `turns` are refused, because later messages get
// those numbers.
Status ImportItems(Database& database, int64_t dialog, int64_t turns,
                   const protocol::JsonArray& items) {
  int64_t last_place = 0, last_turn = 0, seq = 0;
  for (const protocol::Json& each : items) {
    const StoredObject fields(each);
    Item item{.content = {}, .incomplete = fields.Flag("incomplete"), .id = fields.Text("id")};
    const std::string role = fields.Text("role");
    if (!Restore(role, fields.Text("content"), &item).ok())
      return Foreign("an item's content is not of its kind");
    if (role != StoredRole(item) && !api::FindRole(role).has_value())
      return Foreign("an item has no role that is known");
    ASSIGN_OR_RETURN(item.place, CountIn(fields, "place", 1, kMaxCount));
    ASSIGN_OR_RETURN(item.turn, CountIn(fields, "turn", 0, turns));
    ASSIGN_OR_RETURN(const int64_t tokens, CountIn(fields, "tokens", 0, kMaxTokens));
    item.tokens = static_cast<int>(tokens);
    if (item.place < last_place) return Foreign("items are not in the order of places");
    seq = item.place == last_place && item.turn == last_turn ? seq + 1 : 0;
    last_place = item.place;
    last_turn = item.turn;
    RETURN_IF_ERROR(
        CheckRoom(database, dialog, 1, static_cast<int64_t>(StoredContent(item).size())));
    RETURN_IF_ERROR(InsertItem(database, dialog, seq, item));
  }
  return OkStatus();
}

// The owner of an imported dialog. A user's session always belongs to that user, for any owner in
// the line.
std::string OwnerIn(const SessionKey& key, const StoredObject& fields) {
  std::string owner = fields.Text("owner");
  const bool of_user = key.session.find('/') != std::string::npos;
  return of_user || owner.empty() ? OwnerOf(key) : owner;
}

Status ImportDialog(Database& database, const SessionKey& key, const StoredObject& fields,
                    int64_t now_s, const DialogQuota& limits) {
  ASSIGN_OR_RETURN(const int64_t there, FindDialog(database, key));
  if (there != 0)
    return Status(StatusCode::kAlreadyExists, "store_conflict", "there is such a dialog already");
  const std::string owner = OwnerIn(key, fields);
  if (owner.size() > kMaxOwner) return Foreign("too long a name of its owner");
  RETURN_IF_ERROR(HasRoom(database, key.tenant, owner, limits));
  ASSIGN_OR_RETURN(const int64_t dialog, CreateDialog(database, key, now_s, owner));
  const std::string prompt = fields.Text("system_prompt"), metadata = fields.Text("metadata");
  if (prompt.size() > kMaxText || metadata.size() > kMaxText) return Foreign("too long a text");
  ASSIGN_OR_RETURN(const int64_t version, CountIn(fields, "version", 0, kMaxCount));
  ASSIGN_OR_RETURN(const int64_t turns, CountIn(fields, "turns", 0, kMaxCount));
  ASSIGN_OR_RETURN(const int64_t first_place, CountIn(fields, "first_place", 1, kMaxCount));
  RETURN_IF_ERROR(Run(database,
                      "UPDATE dialog SET version=?2, turns=?3, first_place=?4, "
                      "system_prompt=?5, created_s=?6, metadata=?7 WHERE id=?1",
                      dialog, version, turns, first_place, prompt, fields.Int("created_at"),
                      metadata));
  RETURN_IF_ERROR(ImportItems(database, dialog, turns, fields.List("items")));
  return NoteVersion(database, dialog, 0);
}

}  // namespace

Result<std::vector<SessionKey>> SessionsOf(Database& database, const Subject& subject) {
  ASSIGN_OR_RETURN(Statement rows,
                   database.Prepare("SELECT project, session FROM dialog WHERE tenant=?1 AND "
                                    "hidden=0 AND substr(session, 1, length(?2))=?2 "
                                    "ORDER BY project, session"));
  rows.Bind(subject.tenant, subject.session_prefix);
  return Collect(rows, [&] {
    return SessionKey{subject.tenant, std::string(rows.Text(0)), std::string(rows.Text(1))};
  });
}

Result<ExportedLines> ExportDialogs(Database& database, const Subject& subject,
                                    const ExportPage& page) {
  ExportedLines out;
  if (page.after.empty() && subject.session_prefix.empty())
    RETURN_IF_ERROR(ExportProfiles(database, subject.tenant, &out));
  ASSIGN_OR_RETURN(const std::vector<SessionKey> keys, SessionsOf(database, subject));
  size_t bytes = 0;
  int64_t dialogs = 0;
  for (const SessionKey& key : keys) {
    // The name of a dialog as a page position: '/' separates project and session, and no project
    // name contains '/'.
    const std::string name = key.project + "/" + key.session;
    if (!page.after.empty() && std::pair(key.project, key.session) <=
                                   std::pair(page.after.substr(0, page.after.find('/')),
                                             page.after.substr(page.after.find('/') + 1)))
      continue;
    ASSIGN_OR_RETURN(const std::optional<Dialog> dialog, LoadDialog(database, key));
    if (!dialog.has_value()) continue;
    out.lines.push_back(WriteDialog(key, *dialog));
    bytes += out.lines.back().size();
    if (++dialogs < page.dialogs && bytes < kPageBytes) continue;
    if (key != keys.back()) out.next = name;
    break;
  }
  return out;
}

Result<Imported> ImportLine(Database& database, const Subject& subject, std::string_view line,
                            int64_t now_s, const ImportLimits& limits) {
  ASSIGN_OR_RETURN(const protocol::JsonDocument document, protocol::ParseJson(line, 1 << 20));
  const StoredObject fields(document.root());
  const std::string object = fields.Text("object"), project = fields.Text("project");
  if (object == "project") {
    if (!subject.session_prefix.empty()) return Foreign("a user has no projects of its own");
    RETURN_IF_ERROR(CheckKey({subject.tenant, project, "any"}));
    const std::string prompt = fields.Text("system_prompt");
    if (prompt.size() > kMaxText) return Foreign("too long a text");
    ASSIGN_OR_RETURN(const int64_t version, CountIn(fields, "version", 1, kMaxCount));
    RETURN_IF_ERROR(HasRoomForProfile(database, subject.tenant, project, limits.projects));
    RETURN_IF_ERROR(Run(database, "INSERT INTO profile VALUES(?1, ?2, ?3, ?4)", subject.tenant,
                        project, version, prompt));
    return Imported{.key = {subject.tenant, project, ""}, .profile = {version, prompt}};
  }
  const SessionKey key{subject.tenant, project, fields.Text("session")};
  if (object != "dialog") return Foreign("this is no line of an export");
  RETURN_IF_ERROR(CheckKey(key));
  if (key.session.compare(0, subject.session_prefix.size(), subject.session_prefix) != 0)
    return Foreign("the dialog is another user's");
  RETURN_IF_ERROR(ImportDialog(database, key, fields, now_s, limits.dialogs));
  return Imported{.key = key};
}

Status DeleteProfiles(Database& database, const std::string& tenant) {
  return Run(database, "DELETE FROM profile WHERE tenant=?1", tenant);
}

}  // namespace tutti::sessions
