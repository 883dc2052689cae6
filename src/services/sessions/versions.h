// Versions of a dialog at which a fork can begin, and the place of the last item of each. Forks,
// and the ownership of rows that they share.
//
// A version is a prefix of the history, which ends at a place. When items of that prefix are
// deleted or inserted, the version is forgotten, because a fork from it would have another history.
// A fork has the versions of its original up to the point of the fork.
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
#include "store/database.h"

namespace tutti::sessions {

extern const store::Migration kVersionTables;  // behind kBranchTables

// End of the history that a fork begins with.
struct ForkPoint {
  int64_t version = 0;
  int64_t place = 0;        // of its last item
  int64_t first_place = 1;  // of its prompts
};

// Records a new version after a change of the history at place `changed_from` or later: forgets all
// versions that include the changed part, and adds the current one.
Status NoteVersion(store::Database& database, int64_t dialog, int64_t changed_from);
// Records that the oldest items were deleted.
Status ForgetPrunedVersions(store::Database& database, int64_t dialog);

// Errors: version_mismatch (future version), expired (items of it were deleted).
Result<ForkPoint> FindVersion(store::Database& database, const Dialog& dialog, int64_t version);
// The history before `place` as it is now: with the last version that ends there, or else, for
// items that came in one call, with the number of the version before them.
Result<ForkPoint> FindStateBefore(store::Database& database, const Dialog& dialog, int64_t place);

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
