// Forks of dialogs, and the ownership of rows that forks share.
//
// A fork is a pointer: the new dialog continues the other's items up to a place; no item is copied.
// If a dialog with forks is cleared or deleted, its items move to a hidden dialog, which is deleted
// with the last fork. All functions run on the store's thread; errors are the database's and those
// listed.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "services/sessions/history.h"
#include "services/sessions/versions.h"
#include "store/database.h"

namespace tutti::sessions {

// Makes a new dialog that begins with the items up to a point and has the version of that point,
// and the current system prompt and metadata. Errors: store_conflict (the dialog exists),
// invalid_value (forks are nested too deep).
Result<int64_t> ForkDialog(store::Database& database, int64_t from, const ForkPoint& at,
                           const SessionKey& to, int64_t now_s, const std::string& owner = "");

// Removes the items of a dialog: deletes them, or moves them to a hidden dialog if it has forks.
Status DetachItems(store::Database& database, int64_t dialog, int64_t now_s);
// Deletes the dialog itself.
Status RemoveDialog(store::Database& database, int64_t dialog);

}  // namespace tutti::sessions
