// Which dialogs one owner, and one tenant, may have in the store: a client that opens ever new
// sessions drops its own oldest, never another's. Run on the store's thread.
//
// The owner is a column of the dialog, given where it is made; two of one tenant are two, also
// where they share it. Of a session it follows from the key, but in a project whose clients are
// known.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "services/sessions/history.h"
#include "store/database.h"

namespace tutti::sessions {

extern const store::Migration kOwnerTables;  // behind kVersionTables

// "user:NAME" of a session "NAME/...", "project:NAME" of a project's other sessions, which have no
// user; of conversations "", which is who makes them on a server without callers.
std::string OwnerOf(const SessionKey& key);

struct DialogQuota {
  int64_t per_owner = 1000;
  int64_t per_tenant = 20'000;  // newcomers are refused: nobody's dialogs go for another's
};

struct DialogId {
  int64_t id = 0;
  bool created = false;  // there was none: never, or no longer
};

// The dialog of a key; it is made where there is none, and belongs to `owner` then (empty: to
// OwnerOf). For that the owner's least recently used session goes, where it has as many as it may:
// one that waits for no answer and is no conversation, which is deleted by its owner. Errors:
// tenant_concurrency (one may go once it is answered), insufficient_quota (something must be
// deleted).
Result<DialogId> EnsureDialog(store::Database& database, const SessionKey& key,
                              const std::string& owner, int64_t now_s, const DialogQuota& limits);

// Likewise for a client that names it: a conversation must be there. Errors also: not_found.
Result<DialogId> EnsureNamedDialog(store::Database& database, const SessionKey& key,
                                   const std::string& owner, int64_t now_s,
                                   const DialogQuota& limits);

// Room for one more, as above; `spared` does not go for it. 0: none is spared.
Status MakeRoom(store::Database& database, const std::string& tenant, const std::string& owner,
                const DialogQuota& limits, int64_t spared = 0);
// Where there is none, insufficient_quota: nothing goes for it.
Status HasRoom(store::Database& database, const std::string& tenant, const std::string& owner,
               const DialogQuota& limits);

// Takes an owner's dialogs, conversations too, but for those that wait for an answer unless they
// `waiting` too. How many are left.
Result<int64_t> RemoveDialogsOf(store::Database& database, const std::string& tenant,
                                const std::string& owner, bool waiting);

}  // namespace tutti::sessions
