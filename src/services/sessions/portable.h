// Export and import of all data of a user: JSON lines, one dialog per line. A fork is exported with
// the items that it shares, so each line is self-contained. Importing an export and exporting it
// again gives the same lines. All functions run on the store's thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "services/sessions/dialog_quota.h"
#include "services/sessions/history.h"
#include "store/database.h"

namespace tutti::sessions {

// The user to export. Users that share a tenant have sessions named "user/...", and `prefix`
// selects one user. Empty prefix: the whole tenant, with the prompts of its projects.
struct Subject {
  std::string tenant;
  std::string session_prefix;
};

struct ExportPage {
  std::string after;      // where the page before ended; empty: from the beginning
  int64_t dialogs = 100;  // at most; fewer once there are 4 MiB
};
struct ExportedLines {
  std::vector<std::string> lines;  // JSON objects, without the line's end
  std::string next;                // empty: this was the last page
};

Result<ExportedLines> ExportDialogs(store::Database& database, const Subject& subject,
                                    const ExportPage& page);
// Limits of one tenant; the same as for dialogs that its clients make.
struct ImportLimits {
  DialogQuota dialogs;
  int64_t projects = 0;
};
struct Imported {
  SessionKey key;  // without a session: a project's prompt
  Profile profile = {};
};
// Imports one line. No dialog is dropped to make room for it. Errors: invalid_value (not an
// exported line, or of another subject), store_conflict (the dialog or project exists),
// insufficient_quota (of dialogs), tenant_concurrency (of projects), request_too_large.
Result<Imported> ImportLine(store::Database& database, const Subject& subject,
                            std::string_view line, int64_t now_s, const ImportLimits& limits);
// The sessions of the subject.
Result<std::vector<SessionKey>> SessionsOf(store::Database& database, const Subject& subject);
Status DeleteProfiles(store::Database& database, const std::string& tenant);

}  // namespace tutti::sessions
