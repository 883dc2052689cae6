// Quotas on the stored dialogs of an owner and of a tenant. A client that keeps opening sessions
// drops its own oldest ones, never another owner's. All functions run on the store's thread.
//
// The owner is a column of the dialog and is set when the dialog is made. Owners are distinct
// within a tenant. The owner of a session follows from its key, except in projects whose clients
// are authenticated.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "services/sessions/history.h"
#include "store/database.h"

namespace tutti::sessions {

extern const store::Migration kOwnerTables;  // behind kVersionTables

// "user:NAME" for a session "NAME/...", "project:NAME" for other sessions of a project, which have
// no user; "" for conversations, which is the owner on a server without authentication.
std::string OwnerOf(const SessionKey& key);

struct DialogQuota {
  int64_t per_owner = 1000;
  int64_t per_tenant = 20'000;  // new dialogs are refused: none is dropped for another owner
};

struct DialogId {
  int64_t id = 0;
  bool created = false;  // the dialog did not exist before
};

// Returns the dialog of a key and makes it if needed, for `owner` (empty: OwnerOf the key). If the
// owner has reached its quota, its least recently used session is deleted: one that waits for no
// answer and is no conversation, since only clients delete conversations. Errors:
// tenant_concurrency (a session can be deleted once it is answered), insufficient_quota (the owner
// must delete something).
Result<DialogId> EnsureDialog(store::Database& database, const SessionKey& key,
                              const std::string& owner, int64_t now_s, const DialogQuota& limits);

// Like EnsureDialog, for a key that a client has named: a conversation must exist already. Errors
// also: not_found.
Result<DialogId> EnsureNamedDialog(store::Database& database, const SessionKey& key,
                                   const std::string& owner, int64_t now_s,
                                   const DialogQuota& limits);

// Makes room for one more dialog, as EnsureDialog does; dialog `spared` is not deleted (0: none).
Status MakeRoom(store::Database& database, const std::string& tenant, const std::string& owner,
                const DialogQuota& limits, int64_t spared = 0);
// Checks for room without deleting anything. Errors: insufficient_quota.
Status HasRoom(store::Database& database, const std::string& tenant, const std::string& owner,
               const DialogQuota& limits);

// Deletes all dialogs and conversations of an owner; those that wait for an answer only if
// `waiting`. Returns how many are left.
Result<int64_t> RemoveDialogsOf(store::Database& database, const std::string& tenant,
                                const std::string& owner, bool waiting);

}  // namespace tutti::sessions
