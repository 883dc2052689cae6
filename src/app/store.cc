#include "app/store.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "services/auth/account_tables.h"
#include "services/batches/batch_rows.h"
#include "services/batches/file_rows.h"
#include "services/idempotency/keys.h"
#include "services/jobs/job_rows.h"
#include "services/responses/response_rows.h"
#include "services/sessions/conversations.h"
#include "services/sessions/dialog_quota.h"
#include "services/sessions/history.h"
#include "services/sessions/message.h"
#include "services/sessions/versions.h"
#include "services/usage/ledger_rows.h"
#include "services/webhooks/webhook_rows.h"

namespace tutti::app {
namespace {

// The default folder. A relative XDG variable is ignored, as its specification requires.
std::string UsualFolder() {
  const std::string state = EnvironmentText("XDG_STATE_HOME"), home = EnvironmentText("HOME");
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

std::string FileOf(const std::string& folder) {
  return (std::filesystem::path(folder) / "tutti.db").string();
}

mode_t ModeOf(const std::string& path) {
  struct stat known = {};
  return stat(path.c_str(), &known) == 0 ? known.st_mode & 0777 : 0;
}

// A user with write access to the file could add keys.
Status CheckWriters(const std::string& folder) {
  for (const std::string& path : {folder, FileOf(folder)}) {
    if ((ModeOf(path) & 022) == 0) continue;
    return {StatusCode::kFailedPrecondition, "store_failed",
            "others than its owner may write to " + path + "; chmod go-w " + path};
  }
  return OkStatus();  // what else is wrong the store says itself
}

// Sets mode 0600 on a new database and on the two files that SQLite has created for it; files that
// SQLite creates later inherit the mode.
void KeepToOurselves(const std::string& folder) {
  for (const char* const suffix : {"", "-wal", "-shm"})
    (void)chmod((FileOf(folder) + suffix).c_str(), 0600);
}

}  // namespace

std::string StoreOpenToReaders(const std::string& folder) {
  const std::string file = FileOf(folder);
  const bool found = (ModeOf(folder) & 011) != 0;
  return found && (ModeOf(file) & 044) != 0 ? file : "";
}

Result<std::string> StorePlace(const Settings& settings) {
  std::string folder = settings.Text("store");
  if (folder == "memory") return std::string();
  if (folder.empty()) folder = UsualFolder();
  if (folder.empty())
    return InvalidArgument(
               "invalid_value",
               "neither HOME nor XDG_STATE_HOME is set; set --store DIR or --store memory")
        .WithParam("store");
  return folder;
}

Result<std::string> WorkersSocket(const Settings& settings) {
  if (settings.IsSet("workers.socket")) return settings.Text("workers.socket");
  ASSIGN_OR_RETURN(const std::string folder, StorePlace(settings));
  if (folder.empty()) {
    return InvalidArgument("invalid_value",
                           "a store in memory has no folder for the workers' socket; set "
                           "--workers-socket PATH")
        .WithParam("workers.socket");
  }
  return (std::filesystem::path(folder) / "workers.sock").string();
}

Result<std::string> StoreFolder(const Settings& settings) {
  ASSIGN_OR_RETURN(std::string folder, StorePlace(settings));
  if (!folder.empty()) RETURN_IF_ERROR(MakeFolders(folder));
  return folder;
}

std::vector<store::Migration> StoreTables() {
  return {sessions::kHistoryTables,    sessions::kBranchTables,
          responses::kResponseTables,  auth::kAuthTables,
          usage::kLedgerTable,         sessions::kOwedTables,
          sessions::kVersionTables,    sessions::kFingerprintTables,
          sessions::kOwnerTables,      jobs::kJobTables,
          webhooks::kWebhookTables,    jobs::kJobNews,
          batches::kFileTables,        batches::kBatchTables,
          webhooks::kWebhookOwners,    jobs::kLeanJobs,
          idempotency::kKeyTables,     jobs::kJobEvents,
          sessions::kConversationIndex};
}

Result<std::unique_ptr<store::Store>> OpenStore(const std::string& folder) {
  if (!folder.empty()) RETURN_IF_ERROR(CheckWriters(folder));
  std::error_code none;
  const bool is_new = !folder.empty() && !std::filesystem::exists(FileOf(folder), none);
  const std::vector<store::Migration> tables = StoreTables();
  auto opened = store::Store::Open({.folder = folder}, tables);
  if (opened.ok() && is_new) KeepToOurselves(folder);
  const Status why = opened.status();
  if (why.reason() == "store_corrupt" && !why.message().starts_with(FileOf(folder))) {
    return Status(why.code(), why.reason(),
                  FileOf(folder) + ": " + why.message() +
                      "; restore a backup, or move the file away to start without its keys, users "
                      "and dialogs");
  }
  if (opened.ok() || why.reason() != "store_locked") return opened;
  return Status(why.code(), why.reason(), why.message() + "; choose another folder with --store");
}

StoreWatch::StoreWatch(const api::HealthProbe& inner, const store::Store& store,
                       const usage::Ledger& ledger, const Clock& clock, Logger& log)
    : inner_(inner), store_(store), ledger_(ledger), clock_(clock), log_(log) {}

void StoreWatch::Look() {
  if (failed_) return;  // a failed store stays failed
  const Status health = store_.health();
  if (!health.ok()) {
    failed_ = true;
    log_.Error("store.failed", {{"reason", health.reason()}, {"why", health.message()}});
    return;
  }
  // `overloaded` passes by itself and is returned to the affected callers, so it is not logged
  // here.
  const store::Store::Counts now = store_.counts();
  const TimePoint time = clock_.Now();
  if (now.is_full || now.full != errors_) last_error_ = time;
  errors_ = now.full;
  if (last_error_ == TimePoint::min()) return;
  const bool failing = time - last_error_ < kQuiet;
  if (failing == failing_) return;
  failing_ = failing;
  if (failing) {
    log_.Error("store.full", {{"reason", "store_full"}});
  } else {
    log_.Info("store.works_again");
  }
}

Status StoreWatch::ready() const {
  RETURN_IF_ERROR(inner_.ready());
  return ledger_.ready();
}

}  // namespace tutti::app
