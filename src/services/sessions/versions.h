// The versions of a dialog that a fork can begin at: where each of them ends.
//
// What was said up to a version is what stands up to a place, as long as nothing of it has gone
// since and nothing has come in between. A version of which that is no longer so is forgotten: a
// fork that began there would begin with something else. A fork has the versions of the dialog that
// it came from, up to its own beginning. All run on the store's thread.
#pragma once

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "services/sessions/history.h"
#include "store/database.h"

namespace tutti::sessions {

extern const store::Migration kVersionTables;  // behind kBranchTables

// Where a history ends that a fork begins with.
struct ForkPoint {
  int64_t version = 0;
  int64_t place = 0;        // of its last item
  int64_t first_place = 1;  // of its prompts
};

// The dialog's version is now another: what stood at `changed_from` and behind is no longer what it
// was. All versions that had it are forgotten, the one of now is known.
Status NoteVersion(store::Database& database, int64_t dialog, int64_t changed_from);
// The oldest items have gone: those that are left begin later.
Status ForgetPrunedVersions(store::Database& database, int64_t dialog);

// Errors: version_mismatch (there was no such version yet), expired (something of it has gone).
Result<ForkPoint> FindVersion(store::Database& database, const Dialog& dialog, int64_t version);

}  // namespace tutti::sessions
