// The store of a process: its location, from the settings, the migrations of all services, and its
// health.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/inference.h"
#include "app/config/settings.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "services/usage/ledger.h"
#include "store/database.h"
#include "store/store.h"

namespace tutti::app {

// Folder of `--store`, existing or not; "" for a store in memory. Default: $XDG_STATE_HOME/tutti,
// or ~/.local/state/tutti. Errors: invalid_value (there is no home directory).
Result<std::string> StorePlace(const Settings& settings);

// The same folder, made with those above it, each readable by this user alone.
// Errors: those of StorePlace(), store_failed.
Result<std::string> StoreFolder(const Settings& settings);

// The socket between a frontend and its workers: as the settings say, or in the store's folder.
// Errors: those of StorePlace(); invalid_value (a store in memory has no folder).
Result<std::string> WorkersSocket(const Settings& settings);

// Path of the database in that folder if other users of this machine can read it; else "".
std::string StoreOpenToReaders(const std::string& folder);

// All migrations. The order must never change, because the version of a store is their number.
std::vector<store::Migration> StoreTables();

// Opens the store in that folder with all tables; "": in memory. A new database is readable by this
// user only. Errors: those of Store::Open, where store_locked and store_corrupt add advice;
// store_failed if other users may write to it.
Result<std::unique_ptr<store::Store>> OpenStore(const std::string& folder);

// Health probe of the store: logs when the store begins to fail and when it works again, and
// reports "not ready" while callers cannot be served.
class StoreWatch final : public api::HealthProbe {
 public:
  // The store counts as working again after this time without an error: on a full disk small writes
  // can succeed in between.
  static constexpr Duration kQuiet = std::chrono::seconds(5);

  // All outlive it. `inner`: the health of the rest.
  StoreWatch(const api::HealthProbe& inner, const store::Store& store, const usage::Ledger& ledger,
             const Clock& clock, Logger& log);

  // Polls the store and logs changes of its state; called periodically by one thread.
  void Look();

  Status started() const override { return inner_.started(); }
  Status live() const override { return inner_.live(); }
  // Errors: those of `inner`; storage_error (the store has failed permanently); storage_full
  // (callers must be refused because their usage cannot be recorded). A full disk is no error while
  // it affects only requests that store something.
  Status ready() const override;

 private:
  const api::HealthProbe& inner_;
  const store::Store& store_;
  const usage::Ledger& ledger_;
  const Clock& clock_;
  Logger& log_;
  bool failing_ = false, failed_ = false;  // as the log says
  uint64_t errors_ = 0;
  TimePoint last_error_ = TimePoint::min();
};

}  // namespace tutti::app
