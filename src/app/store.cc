#include "app/store.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "services/auth/tables.h"
#include "services/responses/response_rows.h"
#include "services/sessions/history.h"
#include "services/sessions/owed.h"
#include "services/sessions/versions.h"
#include "services/usage/ledger_rows.h"

namespace tutti::app {
namespace {

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// An XDG variable that is not absolute is to be ignored, as its specification says.
std::string UsualFolder() {
  const std::string state = Variable("XDG_STATE_HOME"), home = Variable("HOME");
  if (state.starts_with('/')) return state + "/tutti";
  return home.empty() ? "" : home + "/.local/state/tutti";
}

Status MakeFolders(const std::filesystem::path& folder) {
  std::filesystem::path made;
  for (const std::filesystem::path& part : folder) {
    made /= part;
    std::error_code error;
    if (std::filesystem::is_directory(made, error)) continue;
    if (mkdir(made.c_str(), 0700) != 0 && errno != EEXIST)
      return Unavailable("store_failed", "the store's folder " + made.string() + ": " +
                                             std::generic_category().message(errno));
  }
  return OkStatus();
}

}  // namespace

Result<std::string> StoreFolder(const Settings& settings) {
  std::string folder = settings.Text("store");
  if (folder == "memory") return std::string();
  if (folder.empty()) folder = UsualFolder();
  if (folder.empty())
    return InvalidArgument("invalid_value",
                           "neither HOME nor XDG_STATE_HOME is set: say where the store is to lie, "
                           "--store DIR, or --store memory")
        .WithParam("store");
  RETURN_IF_ERROR(MakeFolders(folder));
  return folder;
}

std::vector<store::Migration> StoreTables() {
  return {sessions::kHistoryTables, sessions::kBranchTables, responses::kResponseTables,
          auth::kAuthTables,        usage::kLedgerTable,     sessions::kOwedTables,
          sessions::kVersionTables};
}

}  // namespace tutti::app
