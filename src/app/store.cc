#include "app/store.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "services/auth/tables.h"
#include "services/responses/response_rows.h"
#include "services/sessions/dialog_quota.h"
#include "services/sessions/fingerprint.h"
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

Result<std::string> StorePlace(const Settings& settings) {
  std::string folder = settings.Text("store");
  if (folder == "memory") return std::string();
  if (folder.empty()) folder = UsualFolder();
  if (folder.empty())
    return InvalidArgument("invalid_value",
                           "neither HOME nor XDG_STATE_HOME is set: say where the store is to lie, "
                           "--store DIR, or --store memory")
        .WithParam("store");
  return folder;
}

Result<std::string> StoreFolder(const Settings& settings) {
  ASSIGN_OR_RETURN(std::string folder, StorePlace(settings));
  if (!folder.empty()) RETURN_IF_ERROR(MakeFolders(folder));
  return folder;
}

std::vector<store::Migration> StoreTables() {
  return {sessions::kHistoryTables, sessions::kBranchTables,      responses::kResponseTables,
          auth::kAuthTables,        usage::kLedgerTable,          sessions::kOwedTables,
          sessions::kVersionTables, sessions::kFingerprintTables, sessions::kOwnerTables};
}

Result<std::unique_ptr<store::Store>> OpenStore(const std::string& folder) {
  const std::vector<store::Migration> tables = StoreTables();
  auto opened = store::Store::Open({.folder = folder}, tables);
  if (opened.ok() || opened.status().reason() != "store_locked") return opened;
  const Status& why = opened.status();
  return Status(why.code(), why.reason(), why.message() + "; give another --store");
}

}  // namespace tutti::app
