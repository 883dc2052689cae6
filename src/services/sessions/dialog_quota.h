// Which dialogs one tenant may have in the store: a client that opens ever new sessions drops its
// own oldest, never another's. Run on the store's thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "services/sessions/history.h"
#include "store/database.h"

namespace tutti::sessions {

struct DialogId {
  int64_t id = 0;
  bool created = false;  // there was none: never, or no longer
};

// The dialog of a key; it is made where there is none. For that the tenant's least recently used
// session goes, where it has `most` dialogs: one that waits for no answer and is no conversation,
// which its owner deletes. Errors: tenant_concurrency (there is none that may go).
Result<DialogId> EnsureDialog(store::Database& database, const SessionKey& key, int64_t now_s,
                              int64_t most);

// Likewise for a client that names it: a conversation must be there. Errors also: not_found.
Result<DialogId> EnsureNamedDialog(store::Database& database, const SessionKey& key, int64_t now_s,
                                   int64_t most);

// Room for one more, as above; `spared` does not go for it. 0: none is spared.
Status MakeRoom(store::Database& database, const std::string& tenant, int64_t most,
                int64_t spared = 0);
// Where there is none, an error: nothing goes for it.
Status HasRoom(store::Database& database, const std::string& tenant, int64_t most);

}  // namespace tutti::sessions
