// The dialogs of the store: what was said, and the messages that were accepted and not yet
// answered.
//
// A dialog is a list of committed turns, numbered from 1, and a version that each commit raises by
// one. An accepted message is a row before its sender is told, so that after a crash it is still
// there to be answered; its answer and its end are one transaction. Items are never changed. All
// functions run on the store's thread, inside a work of it; their errors are the database's and
// those that they name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "store/database.h"
#include "store/migrations.h"

namespace tutti::sessions {

extern const store::Migration kHistoryTables;

// The same session id in two projects, or of two tenants, is two dialogs.
struct SessionKey {
  std::string tenant, project, session;
  friend auto operator<=>(const SessionKey&, const SessionKey&) = default;
};

struct Item {
  int64_t turn = 0;
  api::Role role = api::Role::kUser;
  std::string content;
  int tokens = 0;           // with what the template puts around it
  bool incomplete = false;  // an answer that was interrupted
};

struct Dialog {
  int64_t id = 0;
  int64_t version = 0;        // of the history: commits so far
  int64_t turns = 0;          // numbers given to messages so far
  int64_t first_turn = 1;     // that goes into prompts (context_window.h)
  std::string system_prompt;  // of this session; empty: the project's
  std::vector<Item> items;    // in order of turn, the user's before the assistant's
  int64_t used_s = 0;         // wall time of the last change, seconds since 1970
};

// A message that was accepted: `request` is what its turn needs, in the caller's encoding.
struct Accepted {
  int64_t turn = 0;
  std::string message_id, request;
};

struct Outcome {
  int64_t turn = 0;
  std::vector<Item> items;  // none: the turn failed or was rolled back
  std::string error = {};   // its code, or empty
  int64_t first_turn = 1;   // from here on
};

Result<std::optional<Dialog>> LoadDialog(store::Database& database, const SessionKey& key);
// The dialog's id; it is there from then on.
Result<int64_t> CreateDialog(store::Database& database, const SessionKey& key, int64_t now_s);

// Errors: store_conflict (the number or the message id is taken).
Status AcceptTurn(store::Database& database, int64_t dialog, const Accepted& message,
                  int64_t now_s);
// Those accepted and not ended, in the order of their turns.
Result<std::vector<Accepted>> PendingTurns(store::Database& database, int64_t dialog);
// Ends a turn. Errors: version_mismatch (the history is not at `version`), turn_ended.
Status EndTurn(store::Database& database, int64_t dialog, int64_t version, const Outcome& outcome,
               int64_t now_s);

// Everything said, and the messages that wait; the dialog itself stays.
Status ClearDialog(store::Database& database, int64_t dialog, int64_t now_s);
Status DeleteDialog(store::Database& database, int64_t dialog);
Status SetSystemPrompt(store::Database& database, int64_t dialog, const std::string& prompt,
                       int64_t now_s);
// Dialogs that nothing changed since `before_s` and that no message waits for; how many went.
Result<int64_t> DeleteUnused(store::Database& database, int64_t before_s);

}  // namespace tutti::sessions
