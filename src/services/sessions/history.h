// Database rows of dialogs: their items (history), and accepted messages that are not answered yet;
// and of projects: the default system prompt of their dialogs.
//
// A dialog has a list of items, ordered by the places that its turns got when they began, and a
// version that each change increases by one. An accepted message is stored before its sender gets
// the acceptance, so that it is answered even after a crash; its answer and its end are stored in
// one transaction. Items never change.
//
// A fork of a dialog (versions.h) shares the rows of the original up to the fork.
//
// All functions run on the store's thread, inside a Store::Work; their errors are the database's
// and those listed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "store/database.h"

namespace tutti::sessions {

extern const store::Migration kHistoryTables;
extern const store::Migration kBranchTables;  // behind it: forks, places, ids of items, projects
// Behind that also kVersionTables (versions.h), kFingerprintTables (message.h) and kOwnerTables
// (dialog_quota.h).

// The same session id in two projects, or of two tenants, is two dialogs. The project "" is that of
// the Conversations API.
struct SessionKey {
  std::string tenant, project, session;
  friend auto operator<=>(const SessionKey&, const SessionKey&) = default;
};

// Errors: invalid_value. Names have at most 512 bytes and no control characters; the session's is
// not empty, and the project's has no '/'.
Status CheckKey(const SessionKey& key);

struct Item {
  int64_t turn = 0;
  api::Role role = api::Role::kUser;
  std::string content;
  int tokens = 0;           // with what the template puts around it
  bool incomplete = false;  // an answer that was interrupted, or longer than it might be
  std::string id = {};      // "msg_..."; empty: none was given
  int64_t place = 0;        // of its turn
  std::optional<api::ToolCall> call = {};  // of kAssistant: the item is a call; no content
  std::string tool_call_id = {};           // of kTool: the call whose output `content` is
  std::string reasoning = {};  // of kAssistant: not empty: the item is reasoning; no content
};

// An item and its message in a prompt; numbers and ids are the caller's to give.
api::ChatMessage MessageOf(const Item& item);
Item ItemOf(const api::ChatMessage& message);
// Text whose tokens are the tokens of the item.
std::string CountedText(const Item& item);
// Form of an item in rows and exports: role and text of a message; type and JSON of other items.
// Errors of Restore(): record_corrupt.
std::string_view StoredRole(const Item& item);
std::string StoredContent(const Item& item);
Status Restore(std::string_view role, std::string content, Item* item);

struct Dialog {
  int64_t id = 0;
  int64_t version = 0;        // of the history: changes so far
  int64_t turns = 0;          // numbers given to messages so far
  int64_t first_place = 1;    // that goes into prompts (turn_prompt.h)
  int64_t next_place = 1;     // of the turn that begins next
  std::string system_prompt;  // of this session; empty: the project's
  std::vector<Item> items;    // in order of place, the user's before the assistant's
  int64_t used_s = 0;         // wall time of the last change, seconds since 1970
  int64_t created_s = 0;
  std::string metadata = {};  // of its owner, as JSON; empty: none
  std::string owner = {};     // whose quota it takes from (dialog_quota.h)
};

// An accepted message; `request` is the serialized request of its turn.
struct Accepted {
  int64_t turn = 0;
  std::string message_id, request;
  std::string response_id = {};
  int64_t fingerprint = 0;  // of the message (message.h)
};

struct Outcome {
  int64_t turn = 0;
  std::vector<Item> items;  // none: the turn failed or was rolled back
  std::string error = {};   // its code, or empty
  int64_t first_place = 1;  // from here on
  int64_t place = 0;        // of the turn; 0: its number
};

// Loads a dialog. `from_place`: first item to load; absent: only the items of the next prompt.
Result<std::optional<Dialog>> LoadDialog(store::Database& database, const SessionKey& key,
                                         std::optional<int64_t> from_place = 1);
// Id of a dialog, 0 if there is none. The ids of deleted dialogs are reused, so an id is only valid
// within a transaction; the dialog of a waiting turn is not deleted.
Result<int64_t> FindDialog(store::Database& database, const SessionKey& key);
// Finds or creates a dialog and returns its id. Needs kOwnerTables (dialog_quota.h).
Result<int64_t> CreateDialog(store::Database& database, const SessionKey& key, int64_t now_s,
                             const std::string& owner = "");

// Errors: store_conflict (the number or the message id is taken).
Status AcceptTurn(store::Database& database, int64_t dialog, const Accepted& message,
                  int64_t now_s);
// Accepted messages that have not ended, in the order of their turns.
Result<std::vector<Accepted>> PendingTurns(store::Database& database, int64_t dialog);
// The latest messages that have ended, oldest first, without their requests.
Result<std::vector<Accepted>> EndedTurns(store::Database& database, int64_t dialog);
// Whether an accepted turn that has not ended has this response.
Result<bool> HasPendingTurn(store::Database& database, const std::string& tenant,
                            const std::string& response_id);
// Sessions with accepted messages that have not ended.
Result<std::vector<SessionKey>> PendingSessions(store::Database& database);
// Number of all turns that have not ended.
Result<int64_t> CountPending(store::Database& database);
// Ends a turn. `version`: required version of the dialog; absent: any. The dialog's version may be
// greater by up to `raised`, for pending changes that do not affect the history. Errors:
// version_mismatch, turn_ended.
Status EndTurn(store::Database& database, int64_t dialog, std::optional<int64_t> version,
               const Outcome& outcome, int64_t now_s, int64_t raised = 0);

// Deletes all items, and all messages up to `last_turn`, answered or not. The dialog and later
// messages stay.
Status ClearDialog(store::Database& database, int64_t dialog, int64_t now_s,
                   int64_t last_turn = INT64_MAX);
Status DeleteDialog(store::Database& database, int64_t dialog);
Status SetSystemPrompt(store::Database& database, int64_t dialog, const std::string& prompt,
                       int64_t now_s);
// Deletes at most a thousand dialogs without waiting messages that have not changed since
// `before_s` (conversations: since `conversations_before_s`). Returns their number.
Result<int64_t> DeleteUnused(store::Database& database, int64_t before_s,
                             int64_t conversations_before_s = 0);

// Limits of one dialog. Beyond them turns delete the oldest items that are no longer in prompts,
// which forks then lose too; the Conversations API gets an error.
struct DialogLimits {
  // 20,000 items are 27 messages a day for two years; a page of them is listed in milliseconds.
  int64_t items = 20'000;
  int64_t bytes = 8 << 20;
};
Status PruneItems(store::Database& database, int64_t dialog, const DialogLimits& limits = {});
// Errors: request_too_large.
Status CheckRoom(store::Database& database, int64_t dialog, int64_t items, int64_t bytes,
                 const DialogLimits& limits = {});

// Number of latest turns whose message ids are remembered.
inline constexpr int64_t kRememberedTurns = 64;

// For other files with SQL: `take()` of each row of a query.
template <typename Take>
Result<std::vector<std::invoke_result_t<Take&>>> Collect(store::Statement& rows, Take take) {
  std::vector<std::invoke_result_t<Take&>> values;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) return values;
    values.push_back(take());
  }
}
// The first column of the first row; 0: there is none.
template <typename... Values>
Result<int64_t> AskInt(store::Database& database, std::string_view sql, const Values&... values) {
  ASSIGN_OR_RETURN(store::Statement row, database.Prepare(sql));
  ASSIGN_OR_RETURN(const bool found, row.Bind(values...).Step());
  return found ? row.Int(0) : int64_t{0};
}
// Reads the items from a query of kItemColumns.
inline constexpr std::string_view kItemColumns =
    "i.turn, i.role, i.content, i.tokens, i.incomplete, i.item_id, i.place";
Result<std::vector<Item>> ReadItems(store::Statement& rows);
Status InsertItem(store::Database& database, int64_t dialog, int64_t seq, const Item& item);
// FROM clause of all items of dialog ?1, with those it shares: items are `i`.
inline constexpr std::string_view kItemsOfLine =
    "WITH RECURSIVE line(id, most) AS (SELECT ?1, 9000000000000000000 UNION ALL "
    "SELECT d.parent, min(line.most, d.parent_place) FROM line JOIN dialog d ON d.id=line.id "
    "WHERE d.parent IS NOT NULL) ";

// Checks the expected version of a change. Errors: version_mismatch.
Status CheckVersion(int64_t now, std::optional<int64_t> expected);

// The prompt of a project. Its version is part of cache keys.
struct Profile {
  int64_t version = 0;  // each change increases it by one; 0: none was ever set
  std::string system_prompt;
};

Result<Profile> LoadProfile(store::Database& database, const std::string& tenant,
                            const std::string& project);
// Errors: tenant_concurrency (more projects than `most`).
Status HasRoomForProfile(store::Database& database, const std::string& tenant,
                         const std::string& project, int64_t most);
// Sets the prompt and returns its version, which increases only if the prompt changed. Errors:
// those of HasRoomForProfile.
Result<int64_t> SetProfile(store::Database& database, const std::string& tenant,
                           const std::string& project, const std::string& prompt, int64_t most);

}  // namespace tutti::sessions
