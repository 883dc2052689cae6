#include "services/sessions/conversations.h"

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "services/sessions/versions.h"

namespace tutti::sessions {
namespace {

using store::Database;
using store::Statement;

Status NoSuchItem() { return NotFound("not_found", "there is no such item"); }

// Loads a dialog without items. Errors: not_found.
Result<Dialog> DialogOf(Database& database, const SessionKey& key) {
  ASSIGN_OR_RETURN(std::optional<Dialog> dialog,
                   LoadDialog(database, key, /*from_place=*/INT64_MAX));
  if (!dialog.has_value()) return NotFound("not_found", "there is no such dialog");
  return *std::move(dialog);
}

Status RaiseVersion(Database& database, const Dialog& dialog,
                    std::optional<int64_t> expected_version, int64_t last_turn, int64_t now_s) {
  RETURN_IF_ERROR(CheckVersion(dialog.version, expected_version));
  return Run(database,
             "UPDATE dialog SET version=version+1, turns=max(turns, ?2), used_s=?3 WHERE id=?1",
             dialog.id, last_turn, now_s);
}

// Position of an item: place, turn and number within the turn.
struct Position {
  int64_t place = 0, turn = 0, seq = 0;
};
Result<Position> Locate(Database& database, int64_t dialog, const std::string& item_id) {
  ASSIGN_OR_RETURN(Statement row,
                   database.Prepare(std::string(kItemsOfLine) +
                                    "SELECT i.place, i.turn, i.seq FROM line JOIN item i ON "
                                    "i.dialog=line.id AND i.place<=line.most WHERE i.item_id=?2"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(dialog, item_id).Step());
  if (!found) return NoSuchItem();
  return Position{row.Int(0), row.Int(1), row.Int(2)};
}

std::string PageQuery(bool ascending) {
  const std::string order = ascending ? " ASC" : " DESC";
  return std::string(kItemsOfLine) + "SELECT " + std::string(kItemColumns) +
         " FROM line JOIN item i ON i.dialog=line.id AND i.place<=line.most "
         "WHERE (i.place, i.turn, i.seq)" +
         (ascending ? ">" : "<") + "(?2, ?3, ?4) ORDER BY i.place" + order + ", i.turn" + order +
         ", i.seq" + order + " LIMIT ?5";
}

}  // namespace

Result<ItemList> ListItems(Database& database, const SessionKey& key, const ItemPage& page) {
  ASSIGN_OR_RETURN(const Dialog dialog, DialogOf(database, key));
  Position from = page.ascending ? Position{-1, -1, -1} : Position{INT64_MAX, 0, 0};
  if (!page.after.empty()) {
    ASSIGN_OR_RETURN(from, Locate(database, dialog.id, page.after));
  }
  const int64_t limit = std::clamp<int64_t>(page.limit, 1, 100);
  ASSIGN_OR_RETURN(Statement rows, database.Prepare(PageQuery(page.ascending)));
  rows.Bind(dialog.id, from.place, from.turn, from.seq, limit + 1);
  ItemList list{.version = dialog.version, .items = {}, .has_more = false};
  ASSIGN_OR_RETURN(list.items, ReadItems(rows));
  list.has_more = static_cast<int64_t>(list.items.size()) > limit;
  if (list.has_more) list.items.pop_back();
  return list;
}

Result<Item> LoadItem(Database& database, const SessionKey& key, const std::string& item_id) {
  ASSIGN_OR_RETURN(const Dialog dialog, DialogOf(database, key));
  ASSIGN_OR_RETURN(Statement rows, database.Prepare(std::string(kItemsOfLine) + "SELECT " +
                                                    std::string(kItemColumns) +
                                                    " FROM line JOIN item i ON i.dialog=line.id "
                                                    "AND i.place<=line.most WHERE i.item_id=?2"));
  rows.Bind(dialog.id, item_id);
  ASSIGN_OR_RETURN(std::vector<Item> items, ReadItems(rows));
  if (items.empty()) return NoSuchItem();
  return std::move(items.front());
}

Result<ItemList> AddItems(Database& database, const SessionKey& key,
                          std::optional<int64_t> expected_version, std::vector<Item> items,
                          int64_t now_s) {
  ASSIGN_OR_RETURN(const Dialog dialog, DialogOf(database, key));
  int64_t turn = dialog.turns, place = dialog.next_place, bytes = 0;
  for (Item& item : items) {
    bytes += static_cast<int64_t>(StoredContent(item).size());
    if (item.turn == 0) item.turn = turn + 1;
    if (item.place == 0) item.place = place;
    if (item.id.empty()) item.id = NewId("msg_");
    turn = item.turn;
    place = item.place + 1;
  }
  RETURN_IF_ERROR(CheckRoom(database, dialog.id, static_cast<int64_t>(items.size()), bytes));
  RETURN_IF_ERROR(RaiseVersion(database, dialog, expected_version, turn, now_s));
  for (const Item& item : items) {
    RETURN_IF_ERROR(InsertItem(database, dialog.id, 0, item));
  }
  RETURN_IF_ERROR(NoteVersion(database, dialog.id, items.empty() ? place : items.front().place));
  return ItemList{.version = dialog.version + 1, .items = std::move(items), .has_more = false};
}

Status RemoveItem(Database& database, const SessionKey& key,
                  std::optional<int64_t> expected_version, const std::string& item_id,
                  int64_t now_s) {
  ASSIGN_OR_RETURN(const Dialog dialog, DialogOf(database, key));
  ASSIGN_OR_RETURN(const Position at, Locate(database, dialog.id, item_id));
  RETURN_IF_ERROR(RaiseVersion(database, dialog, expected_version, 0, now_s));
  RETURN_IF_ERROR(Run(database, "DELETE FROM item WHERE dialog=?1 AND turn=?2 AND seq=?3",
                      dialog.id, at.turn, at.seq));
  if (database.changes() > 0) return NoteVersion(database, dialog.id, at.place);
  return InvalidArgument("invalid_value", "the item belongs to the dialog this one is a fork of");
}

Result<Conversation> CreateConversationRow(Database& database, const SessionKey& key,
                                           const std::string& owner, const std::string& metadata,
                                           std::vector<Item> items, int64_t now_s,
                                           const DialogQuota& limits) {
  RETURN_IF_ERROR(EnsureDialog(database, key, owner, now_s, limits).status());
  RETURN_IF_ERROR(SetMetadataRow(database, key, metadata, now_s));
  ItemList added;
  if (!items.empty()) {
    ASSIGN_OR_RETURN(added, AddItems(database, key, std::nullopt, std::move(items), now_s));
  }
  ASSIGN_OR_RETURN(Conversation conversation, LoadConversation(database, key));
  conversation.items = std::move(added.items);
  return conversation;
}

Result<Conversation> LoadConversation(Database& database, const SessionKey& key) {
  ASSIGN_OR_RETURN(std::optional<Dialog> dialog, LoadDialog(database, key, INT64_MAX));
  if (!dialog.has_value()) return NotFound("not_found", "there is no such conversation");
  return Conversation{.id = key.session,
                      .created_s = dialog->created_s,
                      .version = dialog->version,
                      .metadata = dialog->metadata.empty() ? "{}" : std::move(dialog->metadata),
                      .system_prompt = std::move(dialog->system_prompt),
                      .items = {}};
}

Result<Conversation> ChangeMetadata(Database& database, const SessionKey& key,
                                    std::optional<int64_t> expected_version,
                                    const std::string& metadata, int64_t now_s) {
  ASSIGN_OR_RETURN(const std::optional<Dialog> dialog, LoadDialog(database, key, INT64_MAX));
  if (!dialog.has_value()) return NotFound("not_found", "there is no such conversation");
  RETURN_IF_ERROR(CheckVersion(dialog->version, expected_version));
  RETURN_IF_ERROR(SetMetadataRow(database, key, metadata, now_s));
  RETURN_IF_ERROR(Run(database, "UPDATE dialog SET version=version+1 WHERE id=?1", dialog->id));
  RETURN_IF_ERROR(NoteVersion(database, dialog->id, /*changed_from=*/INT64_MAX));
  return LoadConversation(database, key);
}

Status SetMetadataRow(Database& database, const SessionKey& key, const std::string& metadata,
                      int64_t now_s) {
  RETURN_IF_ERROR(Run(database,
                      "UPDATE dialog SET metadata=?4, used_s=?5 WHERE tenant=?1 AND project=?2 "
                      "AND session=?3",
                      key.tenant, key.project, key.session, metadata, now_s));
  if (database.changes() > 0) return OkStatus();
  return NotFound("not_found", "there is no such conversation");
}

}  // namespace tutti::sessions
