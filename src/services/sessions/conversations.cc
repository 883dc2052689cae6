#include "services/sessions/conversations.h"

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "services/sessions/versions.h"

namespace tutti::sessions {

// Partial, as the query below: other dialogs are used more often, and are not listed.
const store::Migration kConversationIndex = {
    "CREATE INDEX dialog_conversations ON dialog(tenant, used_s) WHERE hidden=0 AND project=''",
    "DROP INDEX dialog_conversations"};

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

// Where a conversation stands in the list: its last use and the number of its row.
struct ListPosition {
  int64_t used_s = 0, dialog = 0;
};
Result<ListPosition> LocateConversation(Database& database, const std::string& tenant,
                                        const std::string& id, const std::string& owner) {
  ASSIGN_OR_RETURN(Statement row,
                   database.Prepare("SELECT used_s, id FROM dialog WHERE tenant=?1 AND project='' "
                                    "AND session=?2 AND hidden=0 AND (?3='' OR owner=?3)"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(tenant, id, owner).Step());
  if (!found) return NotFound("not_found", "there is no such conversation");
  return ListPosition{row.Int(0), row.Int(1)};
}

// With `owned`, kOwnerTables' index has the order; otherwise kConversationIndex.
std::string ListQueryText(bool owned, bool forward_in_time) {
  const std::string order = forward_in_time ? " ASC" : " DESC";
  return std::string(
             "SELECT id, session, created_s, used_s, version, metadata, items, parent IS NOT NULL "
             "FROM dialog WHERE tenant=?1 AND project='' AND hidden=0") +
         (owned ? " AND owner=?2" : "") + " AND (used_s, id)" + (forward_in_time ? ">" : "<") +
         "(?3, ?4) ORDER BY used_s" + order + ", id" + order + " LIMIT ?5";
}

Result<ForkOrigin> OriginOf(Database& database, int64_t dialog) {
  ASSIGN_OR_RETURN(Statement row,
                   database.Prepare("SELECT origin.session, fork.parent_version FROM dialog fork "
                                    "JOIN dialog origin ON origin.id=fork.parent "
                                    "WHERE fork.id=?1 AND origin.hidden=0"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(dialog).Step());
  if (!found) return ForkOrigin{};
  return ForkOrigin{std::string(row.Text(0)), row.Int(1)};
}

// A fork shares items, which its own count does not contain.
Result<int64_t> CountItems(Database& database, int64_t dialog) {
  return AskInt(database,
                std::string(kItemsOfLine) +
                    "SELECT count(*) FROM (SELECT 1 FROM line JOIN item i ON i.dialog=line.id AND "
                    "i.place<=line.most LIMIT ?2)",
                dialog, kMaxCountedItems);
}

}  // namespace

Result<ConversationList> ListConversations(Database& database, const std::string& tenant,
                                           const ConversationPage& page) {
  const bool backward = !page.before.empty();
  const bool forward_in_time = page.ascending != backward;
  ListPosition from = forward_in_time ? ListPosition{-1, -1} : ListPosition{INT64_MAX, INT64_MAX};
  if (backward || !page.after.empty()) {
    ASSIGN_OR_RETURN(from, LocateConversation(database, tenant, backward ? page.before : page.after,
                                              page.owner));
  }
  const int64_t limit = std::clamp<int64_t>(page.limit, 1, 100);
  ConversationList list;
  std::vector<std::pair<size_t, int64_t>> forks;  // index in the list, dialog
  {
    ASSIGN_OR_RETURN(Statement rows,
                     database.Prepare(ListQueryText(!page.owner.empty(), forward_in_time)));
    rows.Bind(tenant, page.owner, from.used_s, from.dialog, limit + 1);
    while (true) {
      ASSIGN_OR_RETURN(const bool row, rows.Step());
      if (!row) break;
      if (static_cast<int64_t>(list.conversations.size()) == limit) {
        list.has_more = true;
        break;
      }
      if (rows.Int(7) != 0) forks.emplace_back(list.conversations.size(), rows.Int(0));
      list.conversations.push_back({.id = std::string(rows.Text(1)),
                                    .created_s = rows.Int(2),
                                    .used_s = rows.Int(3),
                                    .version = rows.Int(4),
                                    .metadata = std::string(rows.Text(5)),
                                    .items = rows.Int(6)});
    }
  }
  for (const auto& [index, dialog] : forks) {
    ASSIGN_OR_RETURN(list.conversations[index].items, CountItems(database, dialog));
    ASSIGN_OR_RETURN(list.conversations[index].origin, OriginOf(database, dialog));
  }
  if (backward) std::reverse(list.conversations.begin(), list.conversations.end());
  return list;
}

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
  ASSIGN_OR_RETURN(ForkOrigin origin, OriginOf(database, dialog->id));
  return Conversation{.id = key.session,
                      .created_s = dialog->created_s,
                      .version = dialog->version,
                      .metadata = dialog->metadata.empty() ? "{}" : std::move(dialog->metadata),
                      .system_prompt = std::move(dialog->system_prompt),
                      .items = {},
                      .origin = std::move(origin)};
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
