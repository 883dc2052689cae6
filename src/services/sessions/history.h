// The dialogs of the store: what was said, and the messages that were accepted and not yet
// answered.
//
// A dialog is a list of items, in the order of the places that its turns had when they began, and a
// version that each change of it raises by one. An accepted message is a row before its sender is
// told, so that after a crash it is still there to be answered; its answer and its end are one
// transaction. Items are never changed.
//
// A dialog may go on from another's (a fork, branch.h): then what was said up to there is the
// other's rows, which it shares.
//
// All functions run on the store's thread, inside a work of it; their errors are the database's and
// those that they name.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "store/database.h"
#include "store/migrations.h"

namespace tutti::sessions {

extern const store::Migration kHistoryTables;
extern const store::Migration kBranchTables;  // behind it: forks, places, ids of items, projects
// Behind that also kVersionTables (versions.h), kFingerprintTables (fingerprint.h) and kOwnerTables
// (dialog_quota.h).

// The same session id in two projects, or of two tenants, is two dialogs. The project "" is that of
// the Conversations API.
struct SessionKey {
  std::string tenant, project, session;
  friend auto operator<=>(const SessionKey&, const SessionKey&) = default;
};

// invalid_value for what cannot be a key: names without control characters, of at most 512 bytes;
// the session's not empty, the project's without '/'.
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
// What an item's tokens are counted by.
std::string CountedText(const Item& item);
// How rows and exports hold an item: a role, or the type of an item that is no message, and a text,
// which is JSON of such an item. Errors of Restore(): record_corrupt.
std::string_view StoredRole(const Item& item);
std::string StoredContent(const Item& item);
Status Restore(std::string_view role, std::string content, Item* item);

struct Dialog {
  int64_t id = 0;
  int64_t version = 0;        // of the history: changes so far
  int64_t turns = 0;          // numbers given to messages so far
  int64_t first_place = 1;    // that goes into prompts (context_window.h)
  int64_t next_place = 1;     // of the turn that begins next
  std::string system_prompt;  // of this session; empty: the project's
  std::vector<Item> items;    // in order of place, the user's before the assistant's
  int64_t used_s = 0;         // wall time of the last change, seconds since 1970
  int64_t created_s = 0;
  std::string metadata = {};  // of its owner, as JSON; empty: none
  std::string owner = {};     // whose quota it takes from (dialog_quota.h)
};

// A message that was accepted: `request` is what its turn needs, in the caller's encoding.
struct Accepted {
  int64_t turn = 0;
  std::string message_id, request;
  std::string response_id = {};
  int64_t fingerprint = 0;  // of the message (fingerprint.h)
};

struct Outcome {
  int64_t turn = 0;
  std::vector<Item> items;  // none: the turn failed or was rolled back
  std::string error = {};   // its code, or empty
  int64_t first_place = 1;  // from here on
  int64_t place = 0;        // of the turn; 0: its number
};

// `from_place`: only the items from there on; absent: those that go into prompts.
Result<std::optional<Dialog>> LoadDialog(store::Database& database, const SessionKey& key,
                                         std::optional<int64_t> from_place = 1);
// The dialog's id, 0 where there is none. Another's once it is gone: nobody keeps it from one
// transaction to the next but for a turn that waits, which keeps its dialog.
Result<int64_t> FindDialog(store::Database& database, const SessionKey& key);
// The dialog's id; it is there from then on. Needs kOwnerTables (dialog_quota.h).
Result<int64_t> CreateDialog(store::Database& database, const SessionKey& key, int64_t now_s,
                             const std::string& owner = "");

// Errors: store_conflict (the number or the message id is taken).
Status AcceptTurn(store::Database& database, int64_t dialog, const Accepted& message,
                  int64_t now_s);
// Those accepted and not ended, in the order of their turns.
Result<std::vector<Accepted>> PendingTurns(store::Database& database, int64_t dialog);
// The last messages that were accepted and have ended, oldest first; without their requests.
Result<std::vector<Accepted>> EndedTurns(store::Database& database, int64_t dialog);
// Whether a turn that was accepted and has no end has this response.
Result<bool> HasPendingTurn(store::Database& database, const std::string& tenant,
                            const std::string& response_id);
// Sessions with messages that wait.
Result<std::vector<SessionKey>> PendingSessions(store::Database& database);
// Their turns without an end.
Result<int64_t> CountPending(store::Database& database);
// Ends a turn. `version`: that the dialog must be at; absent: at whichever. It may be later by up
// to `raised`, changes that do not touch the history and were on their way when this was asked for.
// Errors: version_mismatch, turn_ended.
Status EndTurn(store::Database& database, int64_t dialog, std::optional<int64_t> version,
               const Outcome& outcome, int64_t now_s, int64_t raised = 0);

// Everything said, and the messages up to that turn, answered or not; the dialog itself stays, with
// what was accepted since.
Status ClearDialog(store::Database& database, int64_t dialog, int64_t now_s,
                   int64_t last_turn = INT64_MAX);
Status DeleteDialog(store::Database& database, int64_t dialog);
Status SetSystemPrompt(store::Database& database, int64_t dialog, const std::string& prompt,
                       int64_t now_s);
// Dialogs that nothing changed since `before_s` (of the Conversations API: since
// `conversations_before_s`) and that no message waits for; how many went, at most a thousand.
Result<int64_t> DeleteUnused(store::Database& database, int64_t before_s,
                             int64_t conversations_before_s = 0);

// What one dialog may hold. Turns drop its oldest items beyond that, of those that are in no prompt
// any more; the Conversations API is refused. A fork loses what it shared with them.
struct DialogLimits {
  int64_t items = 4000;
  int64_t bytes = 8 << 20;
};
Status PruneItems(store::Database& database, int64_t dialog, const DialogLimits& limits = {});
// Errors: request_too_large.
Status CheckRoom(store::Database& database, int64_t dialog, int64_t items, int64_t bytes,
                 const DialogLimits& limits = {});

// Ids of messages and their turns are kept for so many turns.
inline constexpr int64_t kRememberedTurns = 64;

// For the other files of rows: the items that a query of kItemColumns gives.
inline constexpr std::string_view kItemColumns =
    "i.turn, i.role, i.content, i.tokens, i.incomplete, i.item_id, i.place";
Result<std::vector<Item>> ReadItems(store::Statement& rows);
Status InsertItem(store::Database& database, int64_t dialog, int64_t seq, const Item& item);
// FROM clause of all items of dialog ?1, with those it shares: items are `i`.
inline constexpr std::string_view kItemsOfLine =
    "WITH RECURSIVE line(id, most) AS (SELECT ?1, 9000000000000000000 UNION ALL "
    "SELECT d.parent, min(line.most, d.parent_place) FROM line JOIN dialog d ON d.id=line.id "
    "WHERE d.parent IS NOT NULL) ";

// What a change asks that says which version it is of. Errors: version_mismatch.
Status CheckVersion(int64_t now, std::optional<int64_t> expected);

}  // namespace tutti::sessions
