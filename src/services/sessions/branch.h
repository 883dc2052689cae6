// Forks of dialogs, and what keeps the rows that they share.
//
// A fork is a pointer: the new dialog goes on from the other's items up to a place, and no item is
// copied. So a dialog that others go on from cannot take its items with it: when it is cleared or
// deleted they stay, in a hidden dialog that goes when the last that needs it has gone. Run on the
// store's thread; errors are the database's and those named.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "services/sessions/history.h"
#include "services/sessions/versions.h"
#include "store/database.h"

namespace tutti::sessions {

// Its items up to that point are then the beginning of a new dialog, which is at that point's
// version; so are its system prompt and its metadata as they are. Errors: store_conflict (there is
// such a dialog), invalid_value (too many forks of forks).
Result<int64_t> ForkDialog(store::Database& database, int64_t from, const ForkPoint& at,
                           const SessionKey& to, int64_t now_s, const std::string& owner = "");

// Takes the items from a dialog: they go, or become a hidden dialog's that its forks go on from.
Status DetachItems(store::Database& database, int64_t dialog, int64_t now_s);
// Takes the dialog itself.
Status RemoveDialog(store::Database& database, int64_t dialog);

}  // namespace tutti::sessions
